/** That an agent runs risky tools without asking a person. */
export function UnattendedMark({ tools }: { tools: readonly string[] }) {
  if (tools.length === 0) return null;
  const named = tools.join(", ");
  return (
    <span className="tag" data-tone="bad" title={`Runs ${named} (medium or high risk) without asking a person.`}>
      unattended: {named}
    </span>
  );
}
