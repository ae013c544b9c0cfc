// The console by keyboard alone: Tab to a control, then type, choose, or press Enter.

const MOST_STOPS = 400;

export class Keyboard {
  constructor(page) {
    this.page = page;
  }

  // Moves to a control with Tab alone. Fails for an unreachable control.
  async reach(selector) {
    const wanted = this.page.locator(selector).first();
    await wanted.waitFor({ state: 'visible', timeout: 60_000 });
    const isThere = () => wanted.evaluate((control) => document.activeElement === control);
    for (let stop = 0; stop < MOST_STOPS; stop += 1) {
      if (await isThere()) {
        await this.showsFocus(wanted, selector);
        return;
      }
      await this.page.keyboard.press('Tab');
    }
    throw new Error(`${selector} is not reached with Tab`);
  }

  async showsFocus(control, selector) {
    const outline = await control.evaluate((element) => getComputedStyle(element).outlineStyle);
    if (outline === 'none') throw new Error(`${selector} does not show that it has the focus`);
  }

  async type(selector, text) {
    await this.reach(selector);
    await this.page.keyboard.press('Control+A');
    await this.page.keyboard.press('Delete');
    await this.page.keyboard.insertText(text);
  }

  // Chooses an option by the first letters of its label, as a list does for typed letters.
  async choose(selector, label) {
    await this.reach(selector);
    await this.page.keyboard.type(label, { delay: 5 });
    const chosen = await this.page.locator(selector).first().evaluate((list) => list.selectedOptions[0].label);
    if (!chosen.startsWith(label)) throw new Error(`${selector}: ${chosen} is chosen, not ${label}`);
  }

  async toggle(selector) {
    await this.reach(selector);
    await this.page.keyboard.press('Space');
  }

  async press(selector) {
    await this.reach(selector);
    await this.page.keyboard.press('Enter');
  }
}
