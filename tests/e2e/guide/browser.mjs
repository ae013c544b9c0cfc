// The guide's steps in the browser: Ada in one window and Ben in another.
import { launchChromium } from '../support/browsers.mjs';
import { until } from '../support/server.mjs';

// Time limit for a change in a window, in milliseconds.
const PATIENCE = 90_000;
const SIZE = { width: 1100, height: 620 };
// The videos that play, in the page.
const playing = () => [...document.querySelectorAll('.tile video')].filter((video) => video.videoWidth > 0 && !video.paused).length;

export class Windows {
  // `cameras` are video files for the fake cameras, for the screenshot.
  constructor(cameras = []) {
    this.cameras = cameras;
    this.windows = [];
  }

  async open(link, name) {
    const camera = this.cameras[this.windows.length];
    const browser = await launchChromium({ camera });
    const page = await browser.newPage({ viewport: SIZE });
    page.setDefaultTimeout(60_000);
    await page.goto(link);
    const window = { browser, page, name };
    this.windows.push(window);
    await this.enter(window);
  }

  async enter({ page, name }) {
    await page.getByLabel('Your name').fill(name);
    await page.getByRole('button', { name: 'Join' }).click();
  }

  // Waits until both windows show both videos.
  async see() {
    for (const { page, name } of this.windows) {
      await until(async () => await page.evaluate(playing) === 2, `the window of ${name} does not show two videos`, PATIENCE);
    }
  }

  async join(printed) {
    const links = [...printed.matchAll(/http:\S+\/call#code=\S+/g)].map(([link]) => link);
    if (links.length !== 2) throw new Error(`there are not two links in ${printed}`);
    await this.open(links[0], 'Ada');
    await this.open(links[1], 'Ben');
    await this.see();
  }

  async leaveAndJoin() {
    const ben = this.windows[1];
    await ben.page.getByRole('button', { name: 'Leave' }).click();
    await ben.page.getByRole('button', { name: 'Join again' }).click();
    await this.see();
  }

  async haveEnded() {
    for (const { page } of this.windows) await page.getByText('The call has ended').waitFor();
  }

  async shoot(path) {
    // The screenshot shows the greeting, not the notices about joins.
    const [ada, ben] = this.windows.map(({ page }) => page);
    await ben.getByPlaceholder('Message').fill('Hello Ada, can you hear me?');
    await ben.getByRole('button', { name: 'Send' }).click();
    await ada.getByText('Hello Ada').waitFor();
    await ada.waitForTimeout(1_500);
    await ada.screenshot({ path });
  }

  async close() {
    for (const { browser } of this.windows) await browser.close();
  }
}
