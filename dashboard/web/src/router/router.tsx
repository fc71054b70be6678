// Where we are: the browser's own address and history, watched.

import { type AnchorHTMLAttributes, type MouseEvent, useCallback, useMemo, useSyncExternalStore } from "react";
import { parse, type Route } from "@/router/routes";

const watchers = new Set<() => void>();

function tell(): void {
  for (const watcher of [...watchers]) watcher();
}

addEventListener("popstate", tell);

function subscribe(watcher: () => void): () => void {
  watchers.add(watcher);
  return () => watchers.delete(watcher);
}

/** Go to another address of the page; `replace` leaves no step in the history. */
export function navigate(address: string, { replace = false } = {}): void {
  if (address === location.pathname + location.search) return;
  if (replace) history.replaceState(null, "", address);
  else history.pushState(null, "", address);
  tell();
}

export function useRoute(): Route {
  const pathname = useSyncExternalStore(subscribe, () => location.pathname);
  return useMemo(() => parse(pathname), [pathname]);
}

/** One name of the address's query, and how to set it: what a view has open, so that a link leads there. */
export function useQuery(name: string): [string | null, (value: string | null) => void] {
  const search = useSyncExternalStore(subscribe, () => location.search);
  const value = useMemo(() => new URLSearchParams(search).get(name), [search, name]);
  const set = useCallback(
    (next: string | null) => {
      const query = new URLSearchParams(location.search);
      if (next === null || next === "") query.delete(name);
      else query.set(name, next);
      const text = query.toString();
      navigate(location.pathname + (text ? `?${text}` : ""), { replace: true });
    },
    [name],
  );
  return [value, set];
}

type LinkProps = AnchorHTMLAttributes<HTMLAnchorElement> & { href: string };

/** A link inside the page. What browsers do with other clicks (a new tab, a window) stays theirs. */
export function Link({ href, onClick, ...rest }: LinkProps) {
  const follow = (event: MouseEvent<HTMLAnchorElement>) => {
    onClick?.(event);
    if (event.defaultPrevented || event.button !== 0) return;
    if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    navigate(href);
  };
  return <a href={href} onClick={follow} {...rest} />;
}
