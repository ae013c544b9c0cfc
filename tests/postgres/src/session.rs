//! A database session that a test holds: for locks and open transactions next to the program under test.

use std::io::{self, BufRead, BufReader, PipeReader, Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};

/// Printed after a statement's rows.
const END: &str = "-- end of the statement --";

/// A superuser session. When it is dropped, it ends and its transaction is rolled back.
#[derive(Debug)]
pub struct Session {
    psql: Child,
    statements: Option<ChildStdin>,
    output: BufReader<PipeReader>,
}

impl Session {
    pub(crate) fn start(mut psql: Command) -> Self {
        let (output, writer) = io::pipe().expect("a pipe");
        psql.stdin(Stdio::piped())
            .stdout(writer.try_clone().expect("a pipe"))
            .stderr(writer);
        let mut child = psql.spawn().expect("psql starts");
        // The command holds ends of the pipe, too: with them open, an exited psql would not close the output.
        drop(psql);
        Self {
            statements: child.stdin.take(),
            psql: child,
            output: BufReader::new(output),
        }
    }

    /// Runs statements, and returns the rows, one per line, with `|` between columns.
    ///
    /// # Panics
    /// A statement fails.
    pub fn run(&mut self, text: &str) -> Vec<String> {
        let statements = self.statements.as_mut().expect("an open session");
        let sent = write!(statements, "{text};\n\\echo {END}\n").and_then(|()| statements.flush());
        let mut lines = Vec::new();
        for line in self.output.by_ref().lines() {
            match line.expect("psql's output is UTF-8") {
                line if line == END => return lines,
                line => lines.push(line),
            }
        }
        panic!("{text}: {sent:?}: {}", lines.join("\n"));
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        drop(self.statements.take());
        let _ = self.psql.wait();
    }
}
