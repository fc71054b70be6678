import { fileURLToPath } from "node:url";
import react from "@vitejs/plugin-react";
import { defineConfig } from "vitest/config";

/** For `npm run dev`: the gateway that answers everything but the page. */
const GATEWAY = process.env.AGENCY_URL ?? "http://127.0.0.1:8000";
const API = "^/(agenc(y|ies)|extensions|tickets|status|healthz|metrics|openapi.json)";

export default defineConfig({
  base: "./", // the gateway may be mounted below a path; the page's <base> says which
  plugins: [react()],
  resolve: { alias: { "@": fileURLToPath(new URL("./src", import.meta.url)) } },
  build: {
    target: ["chrome123", "firefox128", "safari17.5"],
    assetsInlineLimit: 0, // the page's policy allows files of its own, and no data: addresses
    modulePreload: { polyfill: false },
    reportCompressedSize: true,
    // One file for all icons and one for what nearly all views share: alone, many of these modules would be files of a
    // few hundred bytes, which compress badly and cost a request each. React stays out of both: the icons need it, and
    // the shared views need the icons, so that the two files would import each other and neither could begin.
    rolldownOptions: {
      output: {
        codeSplitting: {
          includeDependenciesRecursively: false,
          groups: [
            { name: "icons", test: /lucide-react/ },
            { name: "base", test: /\/src\//, minShareCount: 7 },
          ],
        },
      },
    },
  },
  // The gateway compares a page's origin with its own name, and this page is the gateway's.
  server: {
    proxy: { [API]: { target: GATEWAY, ws: true, changeOrigin: true, headers: { origin: new URL(GATEWAY).origin } } },
  },
  test: {
    projects: [
      { extends: true, test: { name: "logic", environment: "node", include: ["src/**/*.test.ts"] } },
      {
        extends: true,
        test: {
          name: "components",
          environment: "jsdom",
          include: ["src/**/*.test.tsx"],
          setupFiles: ["src/testing/browser.ts"],
          testTimeout: 20_000,
          hookTimeout: 60_000,
        },
      },
    ],
  },
});
