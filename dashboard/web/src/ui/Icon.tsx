import type { ReactNode } from "react";

// Drawn on a grid of 16 with lines of 1.5; they take the colour and size of the text.

const SHAPES = {
  plus: <path d="M8 3v10M3 8h10" />,
  search: <path d="M7 12A5 5 0 1 0 7 2a5 5 0 0 0 0 10ZM11 11l3.2 3.2" />,
  inbox: <path d="M2 9.5 4 3h8l2 6.5V13H2V9.5Zm0 0h3.5l1 1.7h3l1-1.7H14" />,
  agent: <path d="M4 6.5h8v6H4v-6ZM8 6.5V3.5M6.4 9.4h.01M9.6 9.4h.01M2 9v1.5M14 9v1.5" />,
  clock: <path d="M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12ZM8 5v3.2l2.2 1.4" />,
  settings: (
    <path d="M2 4.5h7M12.5 4.5H14M2 11.5h1.5M7 11.5h7M9.2 4.5a1.6 1.6 0 1 0 3.2 0 1.6 1.6 0 0 0-3.2 0ZM3.7 11.5a1.6 1.6 0 1 0 3.2 0 1.6 1.6 0 0 0-3.2 0Z" />
  ),
  cluster: <path d="M2.5 3h11v4h-11V3ZM2.5 9h11v4h-11V9ZM5 5h.01M5 11h.01" />,
  home: <path d="M2.5 7.5 8 3l5.5 4.5M4 6.5V13h8V6.5" />,
  chevron: <path d="m6 4 4 4-4 4" />,
  down: <path d="m4 6 4 4 4-4" />,
  close: <path d="m4 4 8 8M12 4l-8 8" />,
  more: <path d="M3.5 8h.01M8 8h.01M12.5 8h.01" strokeWidth="2.2" />,
  stop: <path d="M4.5 4.5h7v7h-7z" fill="currentColor" />,
  pause: <path d="M5.5 4v8M10.5 4v8" strokeWidth="2" />,
  play: <path d="M5 3.5v9l7-4.5-7-4.5Z" fill="currentColor" />,
  send: <path d="M8 13V3.5M4 7.2 8 3.2l4 4" />,
  check: <path d="m3.5 8.5 3 3 6-7" />,
  sun: (
    <path d="M8 11a3 3 0 1 0 0-6 3 3 0 0 0 0 6ZM8 1.5V3M8 13v1.5M1.5 8H3M13 8h1.5M3.4 3.4l1 1M11.6 11.6l1 1M3.4 12.6l1-1M11.6 4.4l1-1" />
  ),
  moon: <path d="M13 9.5A5.5 5.5 0 0 1 6.5 3 5.5 5.5 0 1 0 13 9.5Z" />,
  bell: <path d="M4 11V7a4 4 0 0 1 8 0v4l1.2 1.5H2.8L4 11ZM6.7 14h2.6" />,
  exit: <path d="M9.5 3H3.5v10h6M7 8h7M11.5 5.5 14 8l-2.5 2.5" />,
  file: <path d="M4 2.5h5l3 3v8H4v-11ZM9 2.5v3h3" />,
  link: (
    <path d="M6.7 9.3 9.3 6.7M7 5l1.6-1.6a2.6 2.6 0 0 1 3.8 3.8L10.8 9M9 11l-1.6 1.6a2.6 2.6 0 0 1-3.8-3.8L5.2 7" />
  ),
  fork: (
    <path d="M5 5.5v5M5 5.5a1.6 1.6 0 1 0 0-3.2 1.6 1.6 0 0 0 0 3.2ZM5 13.7a1.6 1.6 0 1 0 0-3.2 1.6 1.6 0 0 0 0 3.2ZM11 5.5a1.6 1.6 0 1 0 0-3.2 1.6 1.6 0 0 0 0 3.2ZM11 5.5c0 2.6-6 2-6 5" />
  ),
  edit: <path d="m3 13 .7-2.8 7.6-7.6 2.1 2.1-7.6 7.6L3 13Z" />,
  trash: <path d="M3 4.5h10M6.5 4.5V3h3v1.5M4.5 4.5 5 13h6l.5-8.5" />,
  attach: <path d="M12.5 7.5 8 12a2.8 2.8 0 0 1-4-4l5-5a1.9 1.9 0 0 1 2.7 2.7l-5 5a.9.9 0 0 1-1.3-1.3l4.3-4.4" />,
  menu: <path d="M2.5 4.5h11M2.5 8h11M2.5 11.5h11" />,
  panel: <path d="M2.5 3h11v10h-11V3ZM10 3v10" />,
  copy: <path d="M5.5 5.5h8v8h-8v-8ZM3.5 10.5h-1v-8h8v1" />,
  refresh: <path d="M13 8a5 5 0 1 1-1.5-3.5L13 6M13 2.8V6H9.8" />,
  question: <path d="M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12ZM6.3 6.3a1.7 1.7 0 1 1 2.5 1.5c-.5.3-.8.6-.8 1.2M8 11.3h.01" />,
} satisfies Record<string, ReactNode>;

export type IconName = keyof typeof SHAPES;

export function Icon({ name, size = 16 }: { name: IconName; size?: number }) {
  return (
    <svg
      width={size}
      height={size}
      viewBox="0 0 16 16"
      fill="none"
      stroke="currentColor"
      strokeWidth="1.5"
      strokeLinecap="round"
      strokeLinejoin="round"
      aria-hidden="true"
      focusable="false"
    >
      {SHAPES[name]}
    </svg>
  );
}
