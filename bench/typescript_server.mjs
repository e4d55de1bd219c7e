// The smallest server of the TypeScript SDK: one tool that returns its text. What the gateway is measured against.
import { Server } from '../tests/clients/node_modules/@modelcontextprotocol/server/dist/index.mjs';
import { StdioServerTransport } from '../tests/clients/node_modules/@modelcontextprotocol/server/dist/stdio.mjs';

const server = new Server({ name: 'smallest', version: '1.0.0' }, { capabilities: { tools: {} } });
const inputSchema = { type: 'object', properties: { text: { type: 'string' } }, required: ['text'] };

server.setRequestHandler('tools/list', () => ({ tools: [{ name: 'echo', description: 'Echo', inputSchema }] }));
server.setRequestHandler('tools/call', ({ params }) => ({ content: [{ type: 'text', text: params.arguments.text }] }));
await server.connect(new StdioServerTransport());
