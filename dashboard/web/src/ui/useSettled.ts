import { useEffect, useState } from "react";

/** A text once it has not changed for so long; that it is empty counts at once. */
export function useSettled(text: string, ms: number): string {
  const [settled, setSettled] = useState(text);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(text), text ? ms : 0);
    return () => clearTimeout(timer);
  }, [text, ms]);
  return settled;
}
