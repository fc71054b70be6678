// What kinds and states are called, and the signs that tell states apart without colour.

import type { Kind, NodeStatus } from "@/run/runGraph";
import type { Tone } from "@/text/format";

export const KIND_WORDS: Record<Kind, string> = {
  run: "Run",
  tick: "Step",
  model: "Model call",
  tool: "Tool call",
  approval: "Approval",
  child: "Child",
};

export const STATUS_WORDS: Record<NodeStatus, [Tone, string]> = {
  running: ["running", "running"],
  waiting: ["wait", "waits for a person"],
  done: ["ok", "done"],
  failed: ["bad", "failed"],
  denied: ["bad", "denied"],
  canceled: ["idle", "canceled"],
  lost: ["wait", "lost with its process"],
};

export const SIGNS: Record<NodeStatus, string> = {
  running: "▸ ",
  waiting: "‖ ",
  done: "",
  failed: "✕ ",
  denied: "✕ ",
  canceled: "⊘ ",
  lost: "↯ ",
};
