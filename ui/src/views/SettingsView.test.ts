// The settings view, in a browser and in the app's window.
import { render, screen } from '@testing-library/svelte';
import userEvent from '@testing-library/user-event';
import { expect, test } from 'vitest';
import Root from '../App.svelte';
import type { SettingsView } from '../api/types.gen';
import { clusterView } from '../testing/cluster';
import { FakeNode, testApp } from '../testing/node';

const SETTINGS: SettingsView = {
  nodeName: 'studio',
  version: '0.1.0',
  apiUrl: 'http://127.0.0.1:4747',
  homeFolder: '/home/ada/.macrame',
  modelsFolder: '/home/ada/.cache/huggingface/hub',
  logFolder: '/home/ada/.macrame/log',
  discovery: 'lan',
  controlAddresses: ['192.168.1.20:4748'],
};

async function open(can = {}) {
  const node = new FakeNode(clusterView());
  node.on('GET /v1/settings', () => SETTINGS);
  const app = testApp('settings', can);
  render(Root, { app });
  await screen.findByText('192.168.1.20:4748');
  return { app, node, user: userEvent.setup() };
}

test('the node is renamed', async () => {
  const { node, user } = await open();
  node.on('PUT /v1/settings', () => ({ ...SETTINGS, nodeName: 'attic' }));
  const name = screen.getByRole('textbox', { name: 'Name of this node' });
  await user.clear(name);
  await user.type(name, 'attic{Enter}');
  expect(node.bodies('PUT /v1/settings')).toEqual([{ nodeName: 'attic' }]);
  expect(await screen.findByText('This node is now called attic')).toBeTruthy();
});

test('the appearance is taken at once and remembered', async () => {
  const { user } = await open();
  await user.click(screen.getByRole('radio', { name: 'Dark' }));
  expect(document.documentElement.dataset['appearance']).toBe('dark');
  expect(localStorage.getItem('macrame.appearance')).toBe('dark');
});

test('a browser offers nothing that only the window can do', async () => {
  await open();
  expect(screen.queryByRole('checkbox', { name: 'Start Macramé at login' })).toBe(null);
  expect(screen.queryByRole('button', { name: 'Open log folder' })).toBe(null);
});

test('the window offers to start at login and to open folders', async () => {
  const opened: string[] = [];
  const { app, user } = await open({ autostart: true, revealFolder: true });
  app.host.revealFolder = async (path) => void opened.push(path);
  expect(screen.getByRole('checkbox', { name: 'Start Macramé at login' })).toBeTruthy();
  await user.click(screen.getByRole('button', { name: 'Open log folder' }));
  expect(opened).toEqual([SETTINGS.logFolder]);
});
