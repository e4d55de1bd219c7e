// The steps of README.md for the two generations of the TypeScript client, which share these methods.
// Prints one JSON line a step; a failed connection ends the program with its error on stderr.
import { Console } from 'node:console';
import { writeFile } from 'node:fs/promises';
import { text } from 'node:stream/consumers';

// The SDK talks to the console now and then; stdout is for the outcomes.
globalThis.console = new Console(process.stderr, process.stderr);

export async function readInput() {
  return JSON.parse(await text(process.stdin));
}

export async function drive({ client, transport, steps, listen, protocolVersion }) {
  const inbox = new Inbox();
  client.fallbackNotificationHandler = async ({ method, params }) => inbox.put({ method, params });
  await client.connect(transport);
  const awaited = steps.filter((step) => step.do === 'wait_notification').map((step) => step.method);
  // Before the first step, or a change made by a step could come too early to be heard.
  if (awaited.length > 0) await listen?.(awaited);

  for (const step of steps) {
    const line = { do: step.do };
    try {
      line.result = await act(step, { client, transport, inbox, protocolVersion });
    } catch (error) {
      line.error = { type: error.name, code: error.code ?? null, message: error.message, data: error.data ?? null };
    }
    process.stdout.write(`${JSON.stringify({ ...line, notifications: inbox.news() })}\n`);
  }
  await client.close();
}

async function act(step, { client, transport, inbox, protocolVersion }) {
  const options = step.cache ? { cacheMode: step.cache } : undefined;
  switch (step.do) {
    case 'server_info':
      return {
        name: client.getServerVersion()?.name ?? null,
        version: client.getServerVersion()?.version ?? null,
        protocol_version: protocolVersion() ?? null,
        instructions: client.getInstructions() ?? null,
        capabilities: client.getServerCapabilities() ?? {},
      };
    case 'list_tools':
      return client.listTools(page(step), options);
    case 'call_tool':
      return client.callTool({ name: step.name, arguments: step.arguments ?? {} });
    case 'list_resources':
      return client.listResources(page(step), options);
    case 'read_resource':
      return client.readResource({ uri: step.uri }, options);
    case 'wait_notification':
      return inbox.take(step.method, step.within_s ?? 10);
    case 'fetch': {
      const answer = await fetch(step.url, { method: step.method, headers: step.headers, body: step.body });
      return { status: answer.status };
    }
    case 'write_file':
      await writeFile(step.path, step.text);
      return {};
    case 'close': {
      const server = transport._process; // the transport forgets it on closing
      await client.close();
      return { exit_code: server?.exitCode ?? null, signal: server?.signalCode ?? null };
    }
    default:
      throw new Error(`no such step: ${step.do}`);
  }
}

function page(step) {
  return step.cursor ? { cursor: step.cursor } : undefined;
}

// Every notification is reported once as news, and may be waited for once, also when it came before the wait.
class Inbox {
  #news = [];
  #waiting = [];
  #untaken = [];

  put(message) {
    this.#news.push(message);
    this.#untaken.push(message);
    for (const wake of this.#waiting.splice(0)) wake();
  }

  news() {
    return this.#news.splice(0);
  }

  async take(method, seconds) {
    const end = performance.now() + seconds * 1000;
    for (;;) {
      const index = this.#untaken.findIndex((message) => message.method === method);
      if (index >= 0) return this.#untaken.splice(index, 1)[0];
      const left = end - performance.now();
      if (left <= 0) throw new Error(`no ${method} within ${seconds} s`);
      await new Promise((resolve) => {
        const timer = setTimeout(resolve, left);
        this.#waiting.push(() => (clearTimeout(timer), resolve()));
      });
    }
  }
}
