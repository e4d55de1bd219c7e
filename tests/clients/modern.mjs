// modern.mjs legacy|modern COMMAND [ARGUMENT...] | URL - the TypeScript client of the SDK's second generation.
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { drive, readInput } from './drive.mjs';

const [era, command, ...args] = process.argv.slice(2);
const { environment, steps, headers } = await readInput();
// Pinned, because `auto` would fall back to the old protocol without a word.
const mode = era === 'modern' ? { pin: '2026-07-28' } : 'legacy';
// Strict, because it would otherwise answer for a server without the capability: an empty list, and no request.
const client = new Client(
  { name: 'switchboard-tests', version: '1.0.0' },
  { versionNegotiation: { mode }, enforceStrictCapabilities: true },
);

await drive({
  client,
  transport: command.startsWith('http')
    ? new StreamableHTTPClientTransport(new URL(command), { requestInit: { headers } })
    : new StdioClientTransport({ command, args, env: environment }),
  steps,
  listen: era === 'modern' ? (methods) => client.listen(filter(methods)) : undefined,
  protocolVersion: () => client.getNegotiatedProtocolVersion(),
});

function filter(methods) {
  return {
    toolsListChanged: methods.includes('notifications/tools/list_changed'),
    resourcesListChanged: methods.includes('notifications/resources/list_changed'),
  };
}
