// Adds the time in the browser's time zone to each time in UTC.
'use strict';

(() => {
  const { timeZone: zone } = Intl.DateTimeFormat().resolvedOptions();
  const isNeeded = zone && !['UTC', 'Etc/UTC', 'Etc/GMT', 'GMT'].includes(zone);
  // Swedish formats are ISO 8601: 2026-01-31 13:00:00.
  const format = new Intl.DateTimeFormat('sv-SE', { dateStyle: 'short', timeStyle: 'medium' });
  const names = new Intl.DateTimeFormat(undefined, { timeZoneName: 'short' });
  // Such as CET or CEST: the name depends on the day.
  const nameAt = (at) => names.formatToParts(at).find((part) => part.type === 'timeZoneName').value;

  const add = (time) => {
    const at = Date.parse(time.dateTime);
    if (Number.isNaN(at) || time.querySelector('.local')) return;
    const [day, clock] = format.format(at).split(' ');
    const local = document.createElement('small');
    local.className = 'local';
    local.title = zone;
    // The day only if it is not the same as in UTC.
    local.textContent = `${time.dateTime.startsWith(day) ? clock : `${day} ${clock}`} ${nameAt(at)}`;
    time.append(' ', local);
  };

  // Not within a countdown, which shows how long it takes.
  const addAll = () => document.querySelectorAll('time[datetime]:not(time.until, time.until *)').forEach(add);

  if (!isNeeded) return;
  document.addEventListener('DOMContentLoaded', () => {
    const footer = document.querySelector('#zone');
    if (footer) footer.textContent = `Times are UTC, each with the time in ${zone}.`;
    addAll();
  });
  for (const name of ['htmx:afterSwap', 'htmx:afterSettle', 'htmx:sseMessage']) document.addEventListener(name, addAll);
})();
