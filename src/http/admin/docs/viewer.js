// Shows the API's description with links to the documentation. Calls go to the API listener, if it accepts them from this page.
'use strict';

(async () => {
  const METHODS = ['get', 'put', 'post', 'delete', 'patch'];
  const dark = window.matchMedia('(prefers-color-scheme: dark)');
  const setLook = () => document.documentElement.classList.toggle('dark-mode', dark.matches);
  dark.addEventListener('change', setLook);
  setLook();

  const read = async (url) => {
    const response = await fetch(url);
    if (!response.ok) throw new Error(`${url}: ${response.status}`);
    return response.json();
  };
  const note = document.querySelector('#note');
  const files = ['/openapi.json', '/ext/openapi.json', '/docs/api/settings.json'];
  const [description, extensions, settings] = await Promise.all(files.map(read)).catch((error) => {
    note.textContent = `The description could not be loaded: ${error.message}`;
    throw error;
  });

  // One list: the operations below /ext/v1 are in the groups of the resources that they belong to.
  Object.assign(description.paths, extensions.paths);
  Object.assign(description.components.schemas, extensions.components.schemas);
  const isNew = (tag) => description.tags.every((known) => known.name !== tag.name);
  description.tags.push(...extensions.tags.filter(isNew));

  // Swagger UI resolves a relative link against the API's server.
  const here = (path) => new URL(path, location.href).href;
  description.servers = settings.api ? [{ url: settings.api }] : [];
  for (const tag of description.tags) {
    const page = settings.pages[tag.name];
    if (page) tag.externalDocs = { description: page.title, url: here(page.url) };
  }
  for (const operation of Object.values(description.paths).flatMap(Object.values).filter((value) => value.operationId)) {
    operation.externalDocs = { description: 'In the API reference', url: here(`/docs/api.html#${operation.operationId}`) };
    // Links between operations are for programs, and would fill half of the screen.
    for (const response of Object.values(operation.responses)) delete response.links;
  }

  note.textContent = settings.note;
  if (!settings.api) {
    note.append(' ', Object.assign(document.createElement('a'), { href: '/docs/operations.html#credentials', textContent: 'Origins' }));
  }

  // This filter also searches the operations; Swagger UI's own searches only the group names.
  const has = (operation, tag, words) => {
    const fields = [tag, operation.get('method'), operation.get('path'), ...['summary', 'operationId'].map((name) => operation.getIn(['operation', name]))];
    const text = fields.join(' ').toLowerCase();
    return words.every((word) => text.includes(word));
  };
  const opsFilter = (groups, phrase) => {
    const words = phrase.toLowerCase().split(/\s+/).filter(Boolean);
    const kept = groups.map((group, tag) => group.set('operations', group.get('operations').filter((one) => has(one, tag, words))));
    return kept.filter((group) => group.get('operations').size > 0);
  };

  window.ui = SwaggerUIBundle({
    dom_id: '#swagger-ui',
    spec: description,
    deepLinking: true,
    docExpansion: 'list',
    defaultModelsExpandDepth: 0,
    displayRequestDuration: true,
    filter: true,
    supportedSubmitMethods: settings.api ? METHODS : [],
    validatorUrl: 'none',
    layout: 'BaseLayout',
    presets: [SwaggerUIBundle.presets.apis],
    plugins: [() => ({ fn: { opsFilter } })],
    onComplete: () => {
      if (settings.key) window.ui.preauthorizeApiKey('apiKey', settings.key);
      document.querySelector('.operation-filter-input')?.setAttribute('placeholder', 'Filter by words: room, POST, codes …');
    },
  });
})();
