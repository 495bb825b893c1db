// An agent of the Claude Agent SDK with a scripted model. It gets the client configuration that the server prints, as a
// file, and prints what the model saw as JSON: {results, final}.
//
//	node claude-agent-sdk.mjs CONFIG.json
import { readFileSync } from 'node:fs';
import { query } from '@anthropic-ai/claude-agent-sdk';
import { scriptedModel } from './scripted-model.mjs';

const { mcpServers } = JSON.parse(readFileSync(process.argv[2], 'utf8'));
const name = Object.keys(mcpServers)[0];
const tool = (which, input) => ({ tool: `mcp__${name}__${which}`, input });

let session;
const model = await scriptedModel([
  () => tool('start_session', { name: 'claude-agent-sdk' }),
  (result) => {
    session = /s_[a-z2-7]+/.exec(result)?.[0];
    return tool('write_file', { session_id: session, path: 'add.py', content: 'print(19 + 23)\n' });
  },
  () => tool('run_command', { session_id: session, command: 'python3 add.py; exit 3' }),
  () => tool('read_file', { session_id: session, path: 'nothing-here' }),
  () => tool('end_session', { session_id: session }),
  (result) => ({ text: `done: ${result}` }),
]);

let final = '';
const agent = query({
  prompt: 'Add 19 and 23 in a sandbox.',
  options: {
    mcpServers,
    strictMcpConfig: true,
    allowedTools: [`mcp__${name}`],
    tools: [],
    settingSources: [],
    maxTurns: 12,
    env: {
      ...process.env,
      ANTHROPIC_BASE_URL: model.url, ANTHROPIC_API_KEY: 'scripted',
      CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1', ENABLE_TOOL_SEARCH: 'false',
    },
    stderr: (text) => process.stderr.write(text),
  },
});
for await (const message of agent) {
  if (message.type === 'system' && message.subtype === 'init') {
    process.stderr.write(`${JSON.stringify(message.mcp_servers)}\n`);
  }
  if (message.type === 'result') final = message.result ?? message.subtype;
}
model.close();
process.stdout.write(`${JSON.stringify({ results: model.results, final })}\n`);
process.exit(0);
