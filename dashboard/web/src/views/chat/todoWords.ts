// What the states of a step of the plan are called.

export const TODO_WORDS = { pending: "to do", in_progress: "in progress", completed: "done" } as const;
