// Settings of openapi-ts, which `sdk/generate` runs.
export default {
  input: process.env.SDK_INPUT,
  output: { path: process.env.SDK_OUTPUT, importFileExtension: ".js" },
  plugins: [
    { name: "@hey-api/typescript" },
    { name: "@hey-api/client-fetch", throwOnError: true },
    {
      name: "@hey-api/sdk",
      operations: { strategy: "single", containerName: "Operations", methodName: "{{name}}" },
      // A call returns what it answers, and nothing of HTTP.
      responseStyle: "data",
    },
  ],
};
