// The real cluster that `cargo xtask test` starts for these specs, and Chromium to look at it.
//
// MACRAME_UI_URL    first node of a cluster of two, with SmolLM2 deployed over both
// MACRAME_UI_URL_2  second node of that cluster
// MACRAME_UI_URL_3  a node of its own, seen by the others but paired with none
//
// Each is the address that the node prints, token and all. A spec leaves the cluster as it found it.
import { type Browser, type BrowserContextOptions, chromium, type Page } from 'playwright-core';

/** The CPU is shared with two nodes and a compiler perhaps; a 135M model still answers well within this. */
export const ANSWER_MS = 120_000;
/** Discovery repeats every few seconds. */
export const SIGHTING_MS = 30_000;

const ENV = {
  first: 'MACRAME_UI_URL',
  second: 'MACRAME_UI_URL_2',
  unpaired: 'MACRAME_UI_URL_3',
} as const;

export function addressOf(node: keyof typeof ENV): string {
  const address = process.env[ENV[node]];
  if (!address)
    throw new Error(`${ENV[node]} is not set: run the browser specs by cargo xtask test`);
  return address;
}

export function launch(): Promise<Browser> {
  return chromium.launch({
    executablePath: process.env['MACRAME_CHROMIUM'] ?? '/usr/bin/chromium',
    args: [
      '--no-sandbox',
      '--disable-gpu',
      '--disable-quic',
      '--no-first-run',
      '--disable-background-networking',
      '--disable-component-update',
      '--disable-sync',
    ],
  });
}

export interface Opened {
  page: Page;
  /** What no page of ours may do: fail, complain, or speak to anyone but its node. */
  complaints: string[];
}

/** A window of its own, as far as storage goes, on the view named. */
export async function open(
  browser: Browser,
  node: keyof typeof ENV,
  options: BrowserContextOptions = {},
): Promise<Opened> {
  const address = addressOf(node);
  const context = await browser.newContext({
    viewport: { width: 1200, height: 800 },
    ...options,
  });
  const page = await context.newPage();
  const complaints: string[] = [];
  page.on('pageerror', (error) => complaints.push(`error: ${error.message}`));
  page.on('console', (message) => {
    if (message.type() === 'error') complaints.push(`console: ${message.text()}`);
  });
  page.on('request', (request) => {
    if (new URL(request.url()).origin !== new URL(address).origin) {
      complaints.push(`request to ${request.url()}`);
    }
  });
  await page.goto(address);
  return { page, complaints };
}

/** Asks the node itself, as the page does. */
export async function ask<T>(
  node: keyof typeof ENV,
  path: string,
  init: RequestInit = {},
): Promise<T> {
  const address = new URL(addressOf(node));
  const token = new URLSearchParams(address.hash.slice(1)).get('token') ?? '';
  const response = await fetch(address.origin + path, {
    ...init,
    headers: {
      Authorization: `Bearer ${token}`,
      'Content-Type': 'application/json',
    },
  });
  if (!response.ok)
    throw new Error(`${path} answered ${response.status}: ${await response.text()}`);
  const text = await response.text();
  return (text === '' ? undefined : JSON.parse(text)) as T;
}
