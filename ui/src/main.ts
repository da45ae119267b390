// Opens the host, makes the app, and draws it.
import { mount } from 'svelte';
import Root from './App.svelte';
import { openHost } from './host/host';
import { App, viewIn } from './state/app.svelte';
import { applyAppearance, readAppearance } from './state/appearance';
import './styles/tokens.css';
import './styles/base.css';

applyAppearance(readAppearance(localStorage), localStorage, document.documentElement);

const host = await openHost();
const app = new App(host, viewIn(location.hash));

// A new address with a new token, opened in the tab that is already here, changes only the fragment.
addEventListener('hashchange', () => location.reload());
addEventListener('pagehide', () => app.chats.leave());

const target = document.getElementById('app');
if (target === null) throw new Error('index.html has no #app');
mount(Root, { target, props: { app } });
