// What pages of the console do with scripts: read parts again while visible, count down, ask before what cannot be undone, copy.
'use strict';

(() => {
  const SECOND = 1000;

  // A part with the focus is not read again, so that input is not lost. A button with an id keeps the focus when it is read again.
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

  const readAgain = () => {
    for (const part of document.querySelectorAll('[data-every]')) if (!isBusy(part)) htmx.trigger(part, 'refresh');
  };

  document.addEventListener('visibilitychange', () => {
    if (!document.hidden) readAgain();
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

  // The list of a room's events keeps its newest only. What the room shows is read again, once for events that come together.
  let isPlanned = false;
  document.addEventListener('htmx:sseMessage', (event) => {
    const list = event.target.closest('[data-most]');
    while (list && list.children.length > Number(list.dataset.most)) list.lastElementChild.remove();
    if (isPlanned) return;
    isPlanned = true;
    setTimeout(() => {
      isPlanned = false;
      if (!document.hidden) readAgain();
    }, SECOND);
  });

  document.addEventListener('DOMContentLoaded', countDown);
  document.addEventListener('htmx:afterSettle', countDown);
})();
