// Reads docs/guide.md: a reader's steps, in order.
//
//   ```bash               commands for the reader's main terminal
//   <!-- terminal: T -->  the commands below are for a separate terminal T, where they keep running; they end the previous ones there
//   ```text               the output of the last commands, with … for variable parts
//   ```js, python, go     a file, with its name in the first line
//   <!-- browser: S -->   a step in the browser, named in browser.mjs

const FENCE = /^```(\w+)$/;
const COMMENT = /^<!-- (terminal|browser): (.*) -->$/;
const FILE = /^(?:\/\/|#) (\S+\.\w+)$/;

// The steps: { kind: commands | terminal | output | file | browser, text, name }.
export function steps(document) {
  const found = [];
  const lines = document.split('\n');
  let terminal = null;
  for (let at = 0; at < lines.length; at += 1) {
    const [, kind, name] = lines[at].match(COMMENT) ?? [];
    const [, language] = lines[at].match(FENCE) ?? [];
    if (kind === 'browser') found.push({ kind, name });
    if (kind === 'terminal') terminal = name;
    if (language) {
      const end = lines.indexOf('```', at);
      found.push(block(language, lines.slice(at + 1, end).join('\n'), terminal));
      [at, terminal] = [end, null];
    }
  }
  return found;
}

function block(language, text, terminal) {
  if (language === 'bash') return terminal ? { kind: 'terminal', name: terminal, text } : { kind: 'commands', text };
  if (language === 'text') return { kind: 'output', text };
  const [, name] = text.split('\n', 1)[0].match(FILE) ?? [];
  if (!name) throw new Error(`a block of ${language} does not begin with the name of its file`);
  return { kind: 'file', name, text: `${text}\n` };
}

// Returns whether each paragraph was printed, where … stands for anything and white space does not matter.
export function isPrinted(wanted, printed) {
  const plain = (text) => text.replace(/\s+/g, '');
  const pattern = (text) => plain(text).split('…').map((part) => part.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')).join('[^]*?');
  return wanted.split('\n\n').every((paragraph) => new RegExp(pattern(paragraph)).test(plain(printed)));
}
