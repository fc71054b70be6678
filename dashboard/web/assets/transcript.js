// A thread's messages as they are shown: who said what, and each call of a tool with what came of it.

/** The entries of a thread's conversation: `{ key, role, text, origin, calls }`. */
export function transcript(thread) {
  const { messages, subagents = [] } = thread.state;
  const children = new Map(subagents.map((each) => [each.toolCallId, each]));
  const waiting = new Set(thread.pending.map((call) => call.id));
  const entries = [];
  let open = new Map();
  messages.forEach((message, at) => {
    const call = message.role === "tool" ? open.get(message.toolCallId) : undefined;
    if (call) {
      Object.assign(call, { state: outcome(message), result: message.content });
      return;
    }
    const calls = message.toolCalls.map(({ id, name, args }) => ({ id, name, args, state: "planned", result: null }));
    if (calls.length) open = new Map(calls.map((each) => [each.id, each]));
    const { id, role, content, origin } = message;
    entries.push({ key: `${at} ${id}`, role, text: content, origin, calls });
  });
  for (const call of open.values()) if (call.result === null) atWork(call, thread, waiting);
  for (const { calls } of entries) for (const call of calls) call.child = children.get(call.id) ?? null;
  return entries;
}

function outcome({ content, meta }) {
  if (meta === null || typeof meta !== "object" || !("status" in meta)) return "done";
  if (meta.status === "canceled") return "canceled";
  return content.startsWith("Error (permission_denied)") ? "denied" : "failed";
}

/** A call of the batch that is not in the transcript yet: what events tell of it. */
function atWork(call, thread, waiting) {
  const known = thread.calls.get(call.id);
  if (waiting.has(call.id)) call.state = "waiting";
  else if (known) Object.assign(call, { state: known.state, result: known.text });
}

/** Whether what the model is saying is still to be shown: until its message is the last of the transcript. */
export function isSpeaking(thread) {
  return thread.live !== null && thread.live.text !== "" && thread.state.messages.at(-1)?.role !== "assistant";
}
