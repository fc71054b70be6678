// Markdown that agents write. It becomes elements and never HTML. An address in it becomes a link at most: the page
// requests nothing from there before a person clicks.

import { memo, useDeferredValue } from "react";
import ReactMarkdown, { type Components, type Options } from "react-markdown";
import remarkGfm from "remark-gfm";
import { CopyButton } from "@/ui/CopyButton";
import { codeBlocks, type Node, textOf } from "@/ui/codeBlocks";
import css from "@/ui/Markdown.module.css";

const REMARK: Options["remarkPlugins"] = [remarkGfm];
const REHYPE: Options["rehypePlugins"] = [codeBlocks];

const COMPONENTS: Components = {
  a: ({ href, children }) =>
    href && /^(https?:|mailto:)/i.test(href) ? (
      <a href={href} target="_blank" rel="noopener noreferrer nofollow">
        {children}
      </a>
    ) : (
      <span>{children}</span>
    ),
  img: ({ src, alt }) => <span className={css.picture}>{alt || (typeof src === "string" ? src : "picture")}</span>,
  input: ({ checked }) => <span aria-hidden="true">{checked ? "☑ " : "☐ "}</span>,
  pre: ({ children, node }) => (
    <div className={css.block}>
      <pre tabIndex={0}>{children}</pre>
      <CopyButton className={css.copy} text={() => textOf(node as Node | undefined)} />
    </div>
  ),
  table: ({ children }) => (
    <div className={css.table}>
      <table>{children}</table>
    </div>
  ),
};

function Markdown({ text, streaming = false }: { text: string; streaming?: boolean }) {
  const shown = useDeferredValue(text); // while it streams, typing elsewhere goes first
  return (
    <div className={`${css.markdown} text`} data-streaming={streaming || undefined}>
      <ReactMarkdown remarkPlugins={REMARK} rehypePlugins={REHYPE} components={COMPONENTS}>
        {shown}
      </ReactMarkdown>
    </div>
  );
}

export default memo(Markdown);
