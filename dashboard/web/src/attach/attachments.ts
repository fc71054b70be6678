// Files that people add to a message: pictures go with it, text becomes files of the agent, and so does all else, byte
// by byte, before the message is sent.

import { Problem } from "@/api/problem";
import type { ImageToSend } from "@/api/types";
import { bytes } from "@/text/format";

const PICTURES = ["image/png", "image/jpeg", "image/gif", "image/webp"] as const;
const PICTURE_BYTES = 5_000_000;
const TEXT_BYTES = 2_000_000;
const MOST = 20;

export type Attachment =
  | { kind: "image"; name: string; size: number; image: ImageToSend }
  | { kind: "text"; name: string; size: number; path: string; content: string }
  | { kind: "binary"; name: string; size: number; path: string; content: File };

/** A file's place among the agent's: its name, without what paths cannot have. */
export function pathOf(name: string): string {
  return `/${name.replace(/[\\/\0]+/g, "_").replace(/^\.+/, "") || "file"}`;
}

export async function read(file: File): Promise<Attachment> {
  const { name, size } = file;
  const mediaType = PICTURES.find((each) => each === file.type);
  if (mediaType) {
    if (size > PICTURE_BYTES) throw new Problem(0, `${name} has ${bytes(size)}; a picture has at most 5 MB.`);
    return { kind: "image", name, size, image: { mediaType, data: base64(await file.arrayBuffer()) } };
  }
  if (size <= TEXT_BYTES) {
    const content = asText(await file.arrayBuffer());
    if (content !== null) return { kind: "text", name, size, path: pathOf(name), content };
  }
  return { kind: "binary", name, size, path: pathOf(name), content: file };
}

/** Those that are there with some more; the last of the same path counts. */
export async function add(before: readonly Attachment[], files: Iterable<File>): Promise<Attachment[]> {
  const read_ = await Promise.all([...files].map(read));
  const added = new Map([...before, ...read_].map((each) => [`${each.kind === "image"} ${each.name}`, each]));
  if (added.size > MOST) throw new Problem(0, `At most ${MOST} files go with a message.`);
  return [...added.values()];
}

/** Null if it is not text. */
function asText(content: ArrayBuffer): string | null {
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(content);
    return text.includes("\0") ? null : text;
  } catch {
    return null;
  }
}

const CHUNK = 0x8000;

export function base64(content: ArrayBuffer): string {
  const all = new Uint8Array(content);
  let binary = "";
  for (let at = 0; at < all.length; at += CHUNK) binary += String.fromCharCode(...all.subarray(at, at + CHUNK));
  return btoa(binary);
}

export function imagesOf(attachments: readonly Attachment[]): ImageToSend[] {
  return attachments.flatMap((each) => (each.kind === "image" ? [each.image] : []));
}

export function filesOf(attachments: readonly Attachment[]): Record<string, string> {
  return Object.fromEntries(attachments.flatMap((each) => (each.kind === "text" ? [[each.path, each.content]] : [])));
}

export function binariesOf(attachments: readonly Attachment[]): { path: string; content: File }[] {
  return attachments.flatMap((each) => (each.kind === "binary" ? [{ path: each.path, content: each.content }] : []));
}
