// Arithmetic for the positions of tiles, without access to the page: the stage applies the results. A tile keeps the ratio of its video, so
// that no face is cut off, and a row that is not full is centered.

export const GAP = 8;
export const LANDSCAPE = 16 / 9;
export const PORTRAIT = 3 / 4;
// Lower tiles would show no face. If more of them are wanted than fit, there are pages.
const LEAST_HEIGHT = 84;
// Halvings of the stage's height, until the height of the tiles is known to a fraction of a pixel.
const STEPS = 14;

const widthOf = (row, height) => row.reduce((sum, ratio) => sum + ratio * height, GAP * (row.length - 1));

// Fills rows of tiles of one height, from the first to the last.
function filled(ratios, height, width) {
  const rows = [[]];
  for (const ratio of ratios) {
    const row = rows.at(-1);
    if (row.length > 0 && widthOf([...row, ratio], height) > width) rows.push([ratio]);
    else row.push(ratio);
  }
  return rows;
}

// The same rows with about as many tiles in each, if these fit: four are two and two, not three and one.
function balanced(rows, height, width) {
  const ratios = rows.flat();
  const most = Math.ceil(ratios.length / rows.length);
  const even = rows.map((_, index) => ratios.slice(index * most, (index + 1) * most)).filter((row) => row.length > 0);
  return even.every((row) => widthOf(row, height) <= width) ? even : rows;
}

// Returns the greatest common height at which tiles of these ratios fit a stage.
function fittingHeight(ratios, { width, height }) {
  const fits = (tile) => {
    const rows = filled(ratios, tile, width);
    return rows.length * (tile + GAP) - GAP <= height && rows.every((row) => widthOf(row, tile) <= width);
  };
  let [fitting, tooHigh] = [0, height];
  for (let step = 0; step < STEPS; step += 1) {
    const middle = (fitting + tooHigh) / 2;
    if (fits(middle)) fitting = middle;
    else tooHigh = middle;
  }
  return fitting;
}

// Returns the number of landscape tiles that a stage has room for: at most `most`, and only as many as leave each high enough for a face.
export function capacityOf(stage, most) {
  let count = Math.min(2, most);
  while (count < most && fittingHeight(Array(count + 1).fill(LANDSCAPE), stage) >= LEAST_HEIGHT) count += 1;
  return count;
}

// The same tiles with the width of the widest row. Where even the lowest tiles do not fit, the stage scrolls.
export function gridOf(ratios, { width, height }) {
  const fitting = fittingHeight(ratios, { width, height });
  // Even on a very low stage, two rows fit.
  const least = Math.min(LEAST_HEIGHT, (height - GAP) / 2, width / Math.max(...ratios));
  const tile = Math.floor(Math.max(fitting, least));
  const rows = balanced(filled(ratios, tile, width), tile, width);
  return { height: tile, width: Math.min(width, Math.ceil(Math.max(...rows.map((row) => widthOf(row, tile)))) + 1) };
}

// The largest box of a ratio in the middle of another box.
export function fitted(ratio, { left = 0, top = 0, width, height }) {
  const wide = Math.min(width, height * ratio);
  const [own, high] = [Math.floor(wide), Math.floor(wide / ratio)];
  return { left: left + Math.round((width - own) / 2), top: top + Math.round((height - high) / 2), width: own, height: high };
}

const between = (least, value, most) => Math.max(least, Math.min(value, most));

// Returns a large tile's box, and the box and the `thickness` of a strip with the others: beside it, or below it on an upright stage.
export function withStrip({ width, height }) {
  const isBeside = width >= height;
  // On an upright stage, the strip fits two landscape tiles side by side.
  const thickness = Math.round(isBeside ? between(88, width * 0.17, 216) : Math.min(between(64, height * 0.17, 120), (width - GAP) / 2 / LANDSCAPE));
  return isBeside
    ? { isBeside, thickness, large: { width: width - thickness - GAP, height }, strip: { left: width - thickness, top: 0, width: thickness, height } }
    : { isBeside, thickness, large: { width, height: height - thickness - GAP }, strip: { left: 0, top: height - thickness, width, height: thickness } };
}

// Returns the box of a small tile in the corner of the large one; or of the stage, if the large one leaves most of it free.
export function inCorner(ratio, stage, large) {
  const isFilled = large.width * large.height > 0.55 * stage.width * stage.height;
  const { left, top, width, height } = isFilled ? large : { left: 0, top: 0, ...stage };
  const side = between(72, Math.max(stage.width, stage.height) * 0.19, 240);
  const own = fitted(ratio, { width: side, height: side });
  return { ...own, left: left + width - own.width - GAP, top: top + height - own.height - GAP };
}
