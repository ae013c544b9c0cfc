// Shows the description without calls, and without asking others whether it is valid.
window.onload = () => {
  window.ui = SwaggerUIBundle({
    "dom_id": "#swagger-ui",
    "url": "/openapi.json",
    "deepLinking": true,
    "docExpansion": "list",
    "supportedSubmitMethods": [],
    "validatorUrl": "none",
    "layout": "BaseLayout",
    presets: [SwaggerUIBundle.presets.apis, SwaggerUIStandalonePreset],
    plugins: [SwaggerUIBundle.plugins.DownloadUrl],
  });
};
