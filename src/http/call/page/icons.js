// Icons, as outlines of 24 by 24. A button with `data-icon` gets one; its name is in its label.

const SLASH = 'M4 4l16 16';
const MICROPHONE = 'M12 3a3 3 0 0 1 3 3v5a3 3 0 0 1-6 0V6a3 3 0 0 1 3-3z M5.5 11a6.5 6.5 0 0 0 13 0 M12 17.5v3.5';
const CAMERA = 'M4.5 6.5h8a1.5 1.5 0 0 1 1.5 1.5v8a1.5 1.5 0 0 1-1.5 1.5h-8A1.5 1.5 0 0 1 3 16V8a1.5 1.5 0 0 1 1.5-1.5z M14 11l6.5-3.5v9L14 13';
const PATHS = {
  microphone: MICROPHONE,
  'microphone-off': `${MICROPHONE} ${SLASH}`,
  camera: CAMERA,
  'camera-off': `${CAMERA} ${SLASH}`,
  screen: 'M3.5 4.5h17v11.5h-17z M8 20h8 M12 13V8 M9.5 10L12 7.5l2.5 2.5',
  chat: 'M4 5h16v11H9.5L5 19.5V16H4z',
  hand: 'M7.5 13V6.200a1.300 1.300 0 0 1 2.700 0V11V4.300a1.300 1.300 0 0 1 2.700 0V11V5.300a1.300 1.300 0 0 1 2.700 0V12V8.300a1.300 1.300 0 0 1 2.700 0V14c0 4.5-2.300 7-6 7c-3 0-4.5-1.300-6-3.800l-2.600-4.5a1.400 1.400 0 0 1 2.400-1.5L7.5 13.5',
  people: 'M9 5a3.250 3.250 0 1 1 0 6.500a3.250 3.250 0 1 1 0-6.500 M3 19.500c.3-3.500 2.700-5.500 6-5.500s5.700 2 6 5.500 M15.500 5.200a3.250 3.250 0 0 1 0 6.100 M17 14.300c2.300.6 3.800 2.400 4 5.200',
  smile: 'M12 3.500a8.500 8.500 0 1 1 0 17a8.500 8.500 0 1 1 0-17 M8.200 14c1 1.700 2.200 2.500 3.800 2.500s2.800-.8 3.800-2.500 M9 9.500h.01 M15 9.500h.01',
  record: 'M12 4a8 8 0 1 1 0 16a8 8 0 1 1 0-16 M12 9a3 3 0 1 1 0 6a3 3 0 1 1 0-6',
  broadcast: 'M12 11a1.500 1.500 0 1 1 0 3a1.500 1.500 0 1 1 0-3 M8.500 9a5 5 0 0 0 0 7 M15.500 9a5 5 0 0 1 0 7 M5.500 6a9 9 0 0 0 0 13 M18.500 6a9 9 0 0 1 0 13',
  details: 'M5 20v-5 M10 20v-9 M15 20V8 M20 20V4',
  keyboard: 'M3 6.500h18v11H3z M6.500 10h.01 M10 10h.01 M13.500 10h.01 M17 10h.01 M8 14h8',
  leave: 'M2.5 14.5c5.200-5.300 13.800-5.300 19 0l-1.800 2.800l-4.200-1.300v-2.400c-2.300-.7-4.700-.7-7 0V16l-4.200 1.300z',
  grid: 'M4 4h6.5v6.5H4z M13.5 4H20v6.5h-6.5z M4 13.5h6.5V20H4z M13.5 13.5H20V20h-6.5z',
  speaker: 'M3.5 4.5h17v9.5h-17z M3.5 17.5h4v2.5h-4z M10 17.5h4v2.5h-4z M16.5 17.5h4v2.5h-4z',
  before: 'M14.5 5.500L8 12l6.500 6.500',
  after: 'M9.5 5.500L16 12l-6.500 6.500',
  'full-screen': 'M4 9V4h5 M15 4h5v5 M20 15v5h-5 M9 20H4v-5',
  'full-screen-end': 'M9 4v5H4 M20 9h-5V4 M15 20v-5h5 M4 15h5v5',
  floating: 'M20.5 11V5h-17v13H10 M13 13.500h7.500v5.500H13z',
  more: 'M5 12h.01 M12 12h.01 M19 12h.01',
  pin: 'M9 3.5h6l-.8 6.5l3.800 3v2H6v-2l3.800-3z M12 15v6',
  link: 'M10 14a4 4 0 0 0 5.700 0l3-3a4 4 0 0 0-5.700-5.700l-1 1 M14 10a4 4 0 0 0-5.700 0l-3 3A4 4 0 0 0 11 18.700l1-1',
  settings: 'M4 7h9 M19 7h1 M4 17h1 M11 17h9 M16 4.5a2.5 2.5 0 1 1 0 5a2.5 2.5 0 1 1 0-5 M8 14.5a2.5 2.5 0 1 1 0 5a2.5 2.5 0 1 1 0-5',
  sound: 'M4 9v6h4l5 4V5L8 9z M16.5 9a4 4 0 0 1 0 6',
  close: 'M6 6l12 12 M18 6L6 18',
  send: 'M4 11.5L20.5 4L15 20l-3.5-6.5z',
};
const SVG = 'http://www.w3.org/2000/svg';

export function icon(name) {
  const svg = document.createElementNS(SVG, 'svg');
  svg.setAttribute('viewBox', '0 0 24 24');
  svg.setAttribute('aria-hidden', 'true');
  svg.setAttribute('class', `icon icon-${name}`);
  const path = document.createElementNS(SVG, 'path');
  path.setAttribute('d', PATHS[name]);
  svg.append(path);
  return svg;
}

// Sets or replaces an element's icon.
export function setIcon(element, name) {
  const old = element.querySelector(':scope > .icon');
  if (old?.classList.contains(`icon-${name}`)) return;
  old?.remove();
  element.prepend(icon(name));
  element.dataset.icon = name;
}

export function fillIcons(root) {
  for (const one of root.querySelectorAll('[data-icon]')) setIcon(one, one.dataset.icon);
}
