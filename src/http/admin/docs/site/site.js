// Documentation scripts: search, copy code, open the page list on a narrow screen.
'use strict';

(() => {
  const MOST_RESULTS = 12;
  const SNIPPET = 170;
  const body = document.body;

  // Before the viewer had its own address, links to its operations were below this one.
  if (body.dataset.viewer && location.hash.startsWith('#/')) location.replace(body.dataset.viewer + location.hash);
  document.documentElement.classList.add('scripted');

  const menu = document.querySelector('.menu');
  const pages = document.querySelector('#pages');
  menu.hidden = false;
  menu.addEventListener('click', () => menu.setAttribute('aria-expanded', String(pages.classList.toggle('open'))));
  const current = pages.querySelector('[aria-current]');
  if (current) pages.scrollTop = Math.max(0, current.offsetTop - pages.clientHeight / 2);

  // Without a secure context, and in some browsers in a file, a page may copy a selection only.
  const copy = async (text) => {
    const isCopied = await navigator.clipboard?.writeText(text).then(() => true, () => false);
    if (isCopied) return;
    const area = Object.assign(document.createElement('textarea'), { value: text });
    body.append(area);
    area.select();
    document.execCommand('copy');
    area.remove();
  };

  for (const block of document.querySelectorAll('.code')) {
    const button = Object.assign(document.createElement('button'), { type: 'button', textContent: 'Copy' });
    button.setAttribute('aria-label', 'Copy the code');
    button.addEventListener('click', () => copy(block.querySelector('code').textContent).then(() => {
      button.textContent = 'Copied';
      setTimeout(() => { button.textContent = 'Copy'; }, 2000);
    }));
    block.append(button);
  }

  const form = document.querySelector('.find');
  const input = document.querySelector('#search');
  const list = document.querySelector('#found');
  form.hidden = false;

  // The search index, loaded when a search starts. It is a script, because a page opened as a file may load no data.
  let loaded = null;
  const load = () => {
    loaded ??= new Promise((resolve, reject) => {
      const script = Object.assign(document.createElement('script'), { src: body.dataset.index, onload: resolve, onerror: reject });
      document.head.append(script);
    }).then(() => prepare(globalThis.searchIndex));
    return loaded;
  };

  const words = (text) => text.toLowerCase().match(/[\p{L}\p{N}_]+/gu) ?? [];

  // The changelog matters least; the API reference has a short section for nearly every name, so it would crowd out the guides.
  const WEIGHTS = { 'changelog.html': 0.3, 'api.html': 0.8 };

  const prepare = ({ pages: titles, sections }) => {
    const titleWords = titles.map(([title]) => words(title));
    return sections.map(([page, heading, anchor, text], at) => {
      const isFirst = at === 0 || sections[at - 1][0] !== page;
      return {
        title: titles[page][0], url: `${titles[page][1]}${isFirst ? '' : `#${anchor}`}`, heading, text, isFirst,
        weight: WEIGHTS[titles[page][1]] ?? 1,
        titleWords: titleWords[page], headingWords: words(heading), textWords: words(text),
      };
    });
  };

  // A whole word scores higher than a prefix.
  const rate = (list, term) => {
    let best = 0;
    for (const word of list) {
      if (word === term) return 1;
      if (best === 0 && word.startsWith(term)) best = 0.6;
    }
    return best;
  };

  // Scores a section; 0 if it lacks a term. The page's title counts in full for its first section, and little for the others.
  const score = (section, terms) => {
    let sum = 0;
    let isNamed = true;
    for (const term of terms) {
      const title = rate(section.titleWords, term) * (section.isFirst ? 30 : 2);
      const heading = section.isFirst ? 0 : rate(section.headingWords, term) * 20;
      const hits = section.textWords.filter((word) => word.startsWith(term)).length;
      // Early and frequent words indicate a text's topic.
      const early = Math.max(0, 1 - section.textWords.findIndex((word) => word.startsWith(term)) / 30);
      const text = hits === 0 ? 0 : 2 + 3 * early + 4 * Math.min(1, (12 * hits) / (section.textWords.length + 40));
      if (title + heading + text === 0) return 0;
      isNamed &&= title + heading >= 12;
      sum += title + heading + text;
    }
    // A heading that consists of the search terms is most likely the target.
    const isExact = isNamed && section.headingWords.length <= terms.length + 1;
    return section.weight * (sum + (isNamed ? 10 : 0) + (isExact ? 10 : 0));
  };

  const find = (sections, query) => {
    const terms = words(query);
    if (terms.length === 0) return [];
    const rated = sections.map((section) => [score(section, terms), section]).filter(([points]) => points > 0);
    return rated.sort(([a], [b]) => b - a).slice(0, MOST_RESULTS).map(([, section]) => section);
  };

  // Adds a text to an element, with the search terms marked.
  const addMarked = (element, text, terms) => {
    const pattern = new RegExp(`(?<![\\p{L}\\p{N}_])(${terms.join('|')})`, 'giu');
    let from = 0;
    for (const match of text.matchAll(pattern)) {
      element.append(text.slice(from, match.index), Object.assign(document.createElement('mark'), { textContent: match[0] }));
      from = match.index + match[0].length;
    }
    element.append(text.slice(from));
    return element;
  };

  // Returns the text around the first match.
  const snippet = (text, terms) => {
    const found = text.search(new RegExp(`(?<![\\p{L}\\p{N}_])(${terms.join('|')})`, 'iu'));
    const from = Math.max(0, found - SNIPPET / 3);
    const start = from === 0 ? 0 : text.indexOf(' ', from) + 1;
    const end = text.length <= start + SNIPPET ? text.length : text.lastIndexOf(' ', start + SNIPPET);
    return `${start ? '… ' : ''}${text.slice(start, end)}${end < text.length ? ' …' : ''}`;
  };

  let selected = -1;
  const select = (at) => {
    const options = [...list.querySelectorAll('[role="option"]')];
    selected = options.length ? (at + options.length) % options.length : -1;
    options.forEach((option, index) => option.setAttribute('aria-selected', String(index === selected)));
    if (selected >= 0) {
      input.setAttribute('aria-activedescendant', options[selected].id);
      options[selected].scrollIntoView({ block: 'nearest' });
    } else {
      input.removeAttribute('aria-activedescendant');
    }
  };

  const open = (isOpen) => {
    list.hidden = !isOpen;
    input.setAttribute('aria-expanded', String(isOpen));
  };

  const go = (option) => {
    open(false);
    menu.setAttribute('aria-expanded', String(false));
    pages.classList.remove('open');
    location.assign(option.dataset.url);
  };

  const show = async () => {
    const query = input.value;
    const sections = await load().catch(() => null);
    if (query !== input.value) return;
    const terms = words(query);
    list.replaceChildren();
    open(terms.length > 0);
    if (terms.length === 0) return;
    const found = sections ? find(sections, query) : [];
    for (const [at, section] of found.entries()) {
      const option = Object.assign(document.createElement('li'), { id: `found-${at}` });
      option.setAttribute('role', 'option');
      option.dataset.url = body.dataset.root + section.url;
      const name = section.isFirst ? section.title : `${section.title} › ${section.heading}`;
      option.append(addMarked(document.createElement('strong'), name, terms));
      option.append(addMarked(document.createElement('small'), snippet(section.text, terms), terms));
      option.addEventListener('click', () => go(option));
      list.append(option);
    }
    if (found.length === 0) {
      const nothing = sections ? 'No page has all these words.' : 'The search could not be loaded.';
      list.append(Object.assign(document.createElement('li'), { textContent: nothing, role: 'option', ariaDisabled: 'true' }));
    }
    select(found.length ? 0 : -1);
  };

  input.addEventListener('focus', load);
  input.addEventListener('input', show);
  form.addEventListener('submit', (event) => event.preventDefault());
  input.addEventListener('keydown', (event) => {
    const options = list.querySelectorAll('[data-url]');
    if (event.key === 'ArrowDown' || event.key === 'ArrowUp') {
      event.preventDefault();
      if (list.hidden) show();
      else select(selected + (event.key === 'ArrowDown' ? 1 : -1));
    } else if (event.key === 'Enter' && options[selected]) {
      go(options[selected]);
    } else if (event.key === 'Escape') {
      open(false);
      input.blur();
    }
  });
  document.addEventListener('click', (event) => {
    if (!form.contains(event.target)) open(false);
  });
  document.addEventListener('keydown', (event) => {
    const isTyping = event.target.matches('input, textarea, select') || event.ctrlKey || event.metaKey || event.altKey;
    if (event.key !== '/' || isTyping) return;
    event.preventDefault();
    input.focus();
    input.select();
  });
})();
