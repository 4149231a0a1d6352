import js from "@eslint/js";
import tseslint from "typescript-eslint";

export default tseslint.config({ ignores: ["out/"] }, js.configs.recommended, {
  files: ["**/*.ts"],
  extends: [tseslint.configs.strictTypeChecked],
  languageOptions: { parserOptions: { project: "./tsconfig.json" } },
});
