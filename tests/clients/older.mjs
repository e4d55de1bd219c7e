// older.mjs COMMAND [ARGUMENT...] | URL - the TypeScript client most hosts still ship, which knows only the handshake.
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { drive, readInput } from './drive.mjs';

const [command, ...args] = process.argv.slice(2);
const { environment, steps, headers } = await readInput();
const transport = command.startsWith('http')
  ? new StreamableHTTPClientTransport(new URL(command), { requestInit: { headers } })
  : new StdioClientTransport({ command, args, env: environment });
// This client tells nobody but the transport what was agreed.
let agreed;
const tell = transport.setProtocolVersion?.bind(transport);
transport.setProtocolVersion = (version) => {
  agreed = version;
  tell?.(version);
};

await drive({
  client: new Client({ name: 'switchboard-tests', version: '1.0.0' }),
  transport,
  steps,
  protocolVersion: () => agreed,
});
