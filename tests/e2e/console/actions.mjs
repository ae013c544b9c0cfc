// Every action of the console, by keyboard alone. `tag` distinguishes runs.
import { record } from './contents.mjs';
import { Keyboard } from './keyboard.mjs';

export async function runActions(page, server, receiver, tag) {
  const walk = new Walk(page, server, tag);
  page.on('dialog', (dialog) => dialog.accept());
  await walk.project();
  await walk.room();
  await walk.jobs();
  await walk.template();
  await walk.webhooks(receiver);
  await walk.file();
  await walk.overview();
  await walk.search();
  await walk.signOut();
  return walk.done;
}

class Walk {
  constructor(page, server, tag) {
    Object.assign(this, { page, server, tag, keyboard: new Keyboard(page), done: 0 });
    this.own = `/projects/${server.project_id}`;
  }

  async open(path) {
    await this.page.goto(this.server.admin + path);
  }

  // An action is done when the page shows this text.
  async says(text) {
    await this.page.getByText(text).first().waitFor({ timeout: 60_000 }).catch(async () => {
      const main = await this.page.locator('main').innerText();
      throw new Error(`${this.page.url()} does not say ${JSON.stringify(text)}, but: ${main.slice(0, 600)}`);
    });
    this.done += 1;
  }

  // A refresh does not move the focus.
  async keepsFocus(selector) {
    await this.keyboard.reach(selector);
    const before = await this.page.locator(selector).elementHandle();
    for (let wait = 0; await before.evaluate((button) => button.isConnected); wait += 1) {
      if (wait === 50) throw new Error('the page is not read again');
      await this.page.waitForTimeout(200);
    }
    const focused = await this.page.locator(selector).evaluate((button) => document.activeElement === button);
    if (!focused) throw new Error(`${selector} has lost the focus`);
    this.done += 1;
  }

  // A problem is beside its input, which has the focus, and beside no other.
  async marks(selector) {
    const input = this.page.locator(`${selector}[aria-invalid="true"]:focus`);
    await input.waitFor({ timeout: 60_000 });
    const text = await this.page.locator(`#${await input.getAttribute('aria-describedby')}`).innerText();
    const marked = await this.page.locator('[aria-invalid]').count();
    if (!text || marked !== 1) throw new Error(`${marked} inputs are marked, ${selector} with ${JSON.stringify(text)}`);
    this.done += 1;
  }

  button(name, within = '') {
    return `${within} button:has-text("${name}")`.trim();
  }

  async project() {
    const { keyboard } = this;
    await this.open('/projects');
    await keyboard.type('#name', `shop ${this.tag}`);
    await keyboard.choose('#env', 'test');
    await keyboard.press(this.button('Create project'));
    await this.says('The project was created.');
    const settings = new URL(this.page.url()).pathname;
    await keyboard.type('#label', 'backend');
    await keyboard.press(this.button('Create API key'));
    await this.says('is shown this once');
    await this.open(settings);
    await keyboard.press(this.button('Revoke'));
    await this.says('The API key is revoked.');
    await keyboard.choose('#plan', 'Pro');
    await keyboard.press(this.button('Change plan'));
    await this.says('The project has moved to the plan.');
    await keyboard.type('#ugx', '5000');
    await keyboard.press(this.button('Add to wallet'));
    await this.says('The amount was added to the wallet.');
    await keyboard.press(this.button('Suspend project'));
    await this.says('The project is suspended');
    await keyboard.press(this.button('Resume project'));
    await this.says('The project is active again.');
  }

  async room() {
    const { keyboard, server } = this;
    const name = `room-${this.tag}`;
    await this.open(this.own);
    await keyboard.type('#room-name', 'a b');
    await keyboard.press(this.button('Open room'));
    await this.says('That did not work');
    await this.marks('#room-name');
    await keyboard.type('#room-name', name);
    await keyboard.type('#max-participants', '12');
    await keyboard.type('#metadata', '{"team": "green"');
    await keyboard.press(this.button('Open room'));
    await this.marks('#metadata');
    await keyboard.type('#metadata', '{"team": "green"}');
    await keyboard.press(this.button('Open room'));
    await this.says('The room is open.');
    await this.says('"team": "green"');
    const path = new URL(this.page.url()).pathname;
    // Events are shown from the response of their stream on.
    await Promise.all([this.page.waitForResponse((answer) => answer.url().endsWith(`${path}/events`)), this.open(path)]);
    await server.join(name, 'alice', 'guest', [['audio', 'microphone']]);
    await this.page.locator('.events').getByText('participant.joined').waitFor();
    this.done += 1;
    await this.page.locator('[aria-label="Mute the microphone of alice"]').waitFor({ timeout: 60_000 });
    await keyboard.press('[aria-label="Mute the microphone of alice"]');
    await this.says('The track was muted or unmuted.');
    await keyboard.choose('#role-alice', 'host');
    await keyboard.press('#change-role-alice');
    await this.says('The participant has its new role.');
    await keyboard.type('#text', 'hello');
    await keyboard.press(this.button('Send message'));
    await this.says('The message was sent');
    await this.keepsFocus('[aria-label="Remove: Disconnect alice?"]');
    await keyboard.press('[aria-label="Remove: Disconnect alice?"]');
    await this.says('The participant was disconnected.');
    await keyboard.choose('#code-role', 'host');
    await keyboard.press(this.button('Create room code'));
    await this.says('is shown this once');
    await this.page.getByLabel('QR code of the join link').waitFor();
    await this.open(path);
    await keyboard.press('[aria-label^="Disable: Disable the code"]');
    await this.says('The room code is disabled.');
    this.path = path;
  }

  async jobs() {
    const { keyboard } = this;
    await this.server.join(`room-${this.tag}`, 'bob', 'host');
    await this.open(this.path);
    await keyboard.press(this.button('Start recording'));
    await this.says('The recording is starting.');
    await keyboard.press('[aria-label="Stop: Stop the recording?"]');
    await this.says('The recording is being stopped.');
    await this.open(this.path);
    await keyboard.type('#broadcast-url', 'rtmp://127.0.0.1/live/key');
    await keyboard.press(this.button('Start broadcast'));
    await this.says('The broadcast is starting.');
    await keyboard.press('[aria-label="Stop: Stop the broadcast?"]');
    await this.says('The broadcast is being stopped.');
    await this.open(this.path);
    await keyboard.type('#ingress-identity', 'camera');
    await keyboard.press(this.button('Create ingress endpoint'));
    await this.says('is shown this once');
    await this.open(this.path);
    await keyboard.press('[aria-label^="Delete: Delete the ingress endpoint"]');
    await this.says('The ingress endpoint was deleted.');
    await this.open(this.path);
    await keyboard.press(this.button('End room'));
    await this.says('The room has ended');
  }

  async template() {
    const { keyboard } = this;
    await this.open(`${this.own}/templates`);
    await keyboard.type('#name', `course-${this.tag}`);
    await keyboard.press(this.button('Create template'));
    await this.says('The template was created.');
    await keyboard.type('#role-name', 'teacher');
    await keyboard.press(this.button('Add role'));
    await this.says('The role was saved.');
    await keyboard.toggle('[aria-label="Record: teacher"]');
    await keyboard.press(this.button('Save permissions'));
    await this.says('The permissions were saved.');
    if (!(await this.page.locator('[aria-label="Record: teacher"]').isChecked())) throw new Error('the permission is not saved');
    await keyboard.press('#new-rtmp');
    await keyboard.type('#new-rtmp-name', 'live');
    await keyboard.type('#new-rtmp-urls', 'rtmp://127.0.0.1/live/key\nhttp://127.0.0.1/');
    await keyboard.press(this.button('Create destination', 'details[open]'));
    await this.marks('#new-rtmp-urls');
    await this.says('Line 2:');
    await keyboard.type('#new-rtmp-urls', 'rtmp://127.0.0.1/live/key');
    await keyboard.press(this.button('Create destination', 'details[open]'));
    await this.says('The destination was created.');
    await keyboard.press('#edit-live');
    await keyboard.type('#edit-live-urls', 'rtmp://127.0.0.1/live/other');
    await keyboard.press(this.button('Save live'));
    await this.says('The destination was changed.');
    await keyboard.press('[aria-label$="Delete the destination live?"]');
    await this.says('The destination was deleted.');
    await keyboard.press('#new-s3');
    await keyboard.type('#new-s3-name', 'store');
    await keyboard.type('#new-s3-bucket', 'a b');
    await keyboard.type('#new-s3-access_key', 'AKIAKEY');
    await keyboard.type('#new-s3-secret', 'hush');
    await keyboard.press(this.button('Create destination', 'details[open]'));
    await this.marks('#new-s3-bucket');
    await keyboard.type('#new-s3-bucket', 'calls');
    await keyboard.choose('#new-s3-force_path_style', 'in the path');
    await keyboard.press(this.button('Create destination', 'details[open]'));
    await this.says('The destination was created.');
    await keyboard.press('#edit-store');
    await keyboard.type('#edit-store-bucket', 'talks');
    await keyboard.press(this.button('Save store'));
    await this.says('The destination was changed.');
    await this.says('talks');
    await keyboard.press('[aria-label$="Delete the destination store?"]');
    await this.says('The destination was deleted.');
    await keyboard.type('#name', `lecture-${this.tag}`);
    await keyboard.press('button:text-is("Save")');
    await this.says('The template was changed.');
    await keyboard.press('[aria-label$="Delete the role teacher?"]');
    await this.says('The role was deleted.');
    await keyboard.press(this.button('Delete template'));
    await this.says('The template was deleted.');
  }

  async webhooks(receiver) {
    const { keyboard } = this;
    const url = `${receiver.url}/${this.tag}`;
    await this.open(`${this.own}/webhooks`);
    await keyboard.type('#url', url);
    await keyboard.press(this.button('Add webhook endpoint'));
    await this.says('is shown this once');
    await this.open(`${this.own}/webhooks`);
    await keyboard.press(`[aria-label="Send test event: ${url}"]`);
    await this.says('A test event is queued.');
    await keyboard.choose('#status', 'failed');
    await keyboard.choose('#endpoint', url);
    await keyboard.press(this.button('Filter'));
    await this.page.waitForURL(/status=failed/);
    const failed = '#deliveries a:has-text("webhook.test")';
    for (let wait = 0; wait < 20 && !(await this.page.locator(failed).count()); wait += 1) {
      await this.page.waitForTimeout(500);
      await this.page.reload();
    }
    await keyboard.press(failed);
    await this.says('The last attempt failed');
    await keyboard.press('[aria-label="Retry: the delivery"]');
    await this.says('The delivery is queued again.');
    await keyboard.press(`[aria-label^="Delete: Delete ${url}"]`);
    await this.says('The webhook endpoint and its queued deliveries were deleted');
  }

  async file() {
    const path = await record(this.server, 'standup', `file-${this.tag}.mp4`);
    await this.open(path);
    await this.keyboard.press(this.button('Delete file'));
    await this.says("The recording's file was deleted.");
    if (await this.page.getByText('Delete file').count()) throw new Error('a deleted file can be deleted again');
  }

  async overview() {
    for (const [path, text] of [['/live/rooms', 'standup'], ['/live/participants', 'alice'], ['/projects', 'Create a project']]) {
      await this.open('/');
      await this.keyboard.press(`.tile a[href="${path}"]`);
      await this.page.waitForURL(this.server.admin + path);
      await this.says(text);
    }
  }

  async search() {
    await this.open(this.own);
    await this.keyboard.type('#q', 'design');
    await this.page.locator('#rooms:not(:has-text("standup")) a:has-text("design-review")').waitFor();
    this.done += 1;
  }

  async signOut() {
    await this.open('/');
    await this.keyboard.press(this.button('Sign out'));
    await this.says('Sign in to Conclave');
  }
}
