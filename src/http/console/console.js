// Console scripts: refresh parts while the page is visible, count down, confirm irreversible actions, copy.
'use strict';

(() => {
  const SECOND = 1000;

  // A part with the focus is not refreshed, so that input is not lost. A button with an id keeps the focus across a refresh.
  const isBusy = (part) => {
    const active = document.activeElement;
    return part.contains(active) && !(active.matches('button') && active.id);
  };

  let seconds = 0;
  setInterval(() => {
    if (document.hidden) return;
    seconds += 1;
    for (const part of document.querySelectorAll('[data-every]')) {
      if (seconds % Number(part.dataset.every) === 0 && !isBusy(part)) htmx.trigger(part, 'refresh');
    }
    countDown();
  }, SECOND);

  const inWords = (left) => {
    if (left <= 0) return 'now';
    if (left < 60) return `in ${left} s`;
    if (left < 3600) return `in ${Math.floor(left / 60)} min ${left % 60} s`;
    return `in ${Math.floor(left / 3600)} h ${Math.floor((left % 3600) / 60)} min`;
  };

  const countDown = () => {
    for (const time of document.querySelectorAll('time[data-until]')) {
      time.textContent = inWords(Math.round((Date.parse(time.dataset.until) - Date.now()) / SECOND));
    }
  };

  const refreshParts = () => {
    for (const part of document.querySelectorAll('[data-every]')) if (!isBusy(part)) htmx.trigger(part, 'refresh');
  };

  document.addEventListener('visibilitychange', () => {
    if (!document.hidden) refreshParts();
  });

  document.addEventListener('click', (event) => {
    const button = event.target.closest('button');
    if (!button) return;
    if (button.dataset.confirm && !window.confirm(button.dataset.confirm)) {
      event.preventDefault();
      event.stopPropagation();
    }
    if (button.dataset.copy) {
      navigator.clipboard.writeText(document.querySelector(button.dataset.copy).textContent).then(() => {
        button.textContent = 'Copied';
      });
    }
  }, true);

  // A room's event list keeps only the newest. The room's other parts refresh once for a burst of events.
  let isPlanned = false;
  document.addEventListener('htmx:sseMessage', (event) => {
    const list = event.target.closest('[data-most]');
    while (list && list.children.length > Number(list.dataset.most)) list.lastElementChild.remove();
    if (isPlanned) return;
    isPlanned = true;
    setTimeout(() => {
      isPlanned = false;
      if (!document.hidden) refreshParts();
    }, SECOND);
  });

  document.addEventListener('DOMContentLoaded', countDown);
  document.addEventListener('htmx:afterSettle', countDown);
})();
