// A model for tests: an endpoint of the Anthropic Messages API on loopback that plays a fixed script. Each step of the
// script is given the text of the last tool result and returns what the model "says" next: {text} ends the turn,
// {tool, input} calls a tool.
import http from 'node:http';

export async function scriptedModel(script) {
  let step = 0;
  const results = [];
  const requests = [];
  const server = http.createServer(async (req, res) => {
    let body = '';
    for await (const part of req) body += part;
    if (req.method !== 'POST' || !req.url.startsWith('/v1/messages')) {
      res.writeHead(404).end();
      return;
    }
    const request = JSON.parse(body);
    if (req.url.includes('count_tokens')) {
      res.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify({ input_tokens: 1 }));
      return;
    }
    requests.push(request);
    // Side questions of a client (titles, warm-ups) come without the tools.
    const wanted = (request.tools ?? []).some((t) => t.name.startsWith('mcp__'));
    const last = wanted ? lastResult(request) : undefined;
    if (last !== undefined) results.push(last);
    const said = wanted ? (script[step++] ?? (() => ({ text: 'The script is over.' })))(last) : { text: 'ok' };
    reply(res, request, said);
  });
  await new Promise((ready) => server.listen(0, '127.0.0.1', ready));
  return {
    url: `http://127.0.0.1:${server.address().port}`,
    results,
    requests,
    steps: () => step,
    close: () => server.close(),
  };
}

// lastResult is the text of the newest tool result. A client may add messages of its own after it.
function lastResult(request) {
  const parts = request.messages.flatMap((m) => (Array.isArray(m.content) ? m.content : []));
  const result = parts.filter((c) => c.type === 'tool_result').at(-1);
  if (!result) return undefined;
  return typeof result.content === 'string' ? result.content : result.content.map((c) => c.text ?? '').join('\n');
}

function reply(res, request, said) {
  const block = said.tool
    ? { type: 'tool_use', id: `toolu_${Math.random().toString(36).slice(2)}`, name: said.tool, input: said.input }
    : { type: 'text', text: said.text };
  const message = {
    id: `msg_${Math.random().toString(36).slice(2)}`, type: 'message', role: 'assistant', model: request.model,
    content: [block], stop_reason: said.tool ? 'tool_use' : 'end_turn', stop_sequence: null,
    usage: { input_tokens: 1, output_tokens: 1 },
  };
  if (!request.stream) {
    res.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(message));
    return;
  }
  res.writeHead(200, { 'content-type': 'text/event-stream' });
  const send = (type, data) => res.write(`event: ${type}\ndata: ${JSON.stringify({ type, ...data })}\n\n`);
  send('message_start', { message: { ...message, content: [], stop_reason: null } });
  if (said.tool) {
    send('content_block_start', { index: 0, content_block: { ...block, input: {} } });
    send('content_block_delta', { index: 0, delta: { type: 'input_json_delta', partial_json: JSON.stringify(said.input) } });
  } else {
    send('content_block_start', { index: 0, content_block: { type: 'text', text: '' } });
    send('content_block_delta', { index: 0, delta: { type: 'text_delta', text: said.text } });
  }
  send('content_block_stop', { index: 0 });
  send('message_delta', { delta: { stop_reason: message.stop_reason, stop_sequence: null }, usage: { output_tokens: 1 } });
  send('message_stop', {});
  res.end();
}
