// older.mjs COMMAND [ARGUMENT...] - the TypeScript client most hosts still ship, which knows only the handshake.
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { drive, readInput } from './drive.mjs';

const [command, ...args] = process.argv.slice(2);
const { environment, steps } = await readInput();
const transport = new StdioClientTransport({ command, args, env: environment });
// This client tells nobody but the transport what was agreed.
let agreed;
transport.setProtocolVersion = (version) => {
  agreed = version;
};

await drive({
  client: new Client({ name: 'switchboard-tests', version: '1.0.0' }),
  transport,
  steps,
  protocolVersion: () => agreed,
});
