//! A billing service on a free port, which answers as it is told and remembers what it was asked.

use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, RwLock};

use serde_json::json;

use super::Received;

/// A billing service.
pub struct FakeBilling {
    pub url: String,
    answer: Arc<Mutex<String>>,
    asked: Arc<Mutex<Vec<Received>>>,
    /// Read for each answer; whoever writes holds them back.
    gate: Arc<RwLock<()>>,
}

impl FakeBilling {
    /// A service that says `ok` of every project.
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/pay/", listener.local_addr().unwrap());
        let service = Self { url, answer: Arc::default(), asked: Arc::default(), gate: Arc::default() };
        service.says("ok");
        let (answer, asked, gate) = (service.answer.clone(), service.asked.clone(), service.gate.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (answer, asked, gate) = (answer.clone(), asked.clone(), gate.clone());
                std::thread::spawn(move || serve(stream, &answer, &asked, &gate));
            }
        });
        service
    }

    /// From now on says this of every project.
    pub fn says(&self, standing: &str) {
        self.answers(200, "", &json!({"standing": standing}).to_string());
    }

    /// From now on answers with this status, these further header lines and this body.
    pub fn answers(&self, status: u16, headers: &str, body: &str) {
        let length = body.len();
        let head = format!("HTTP/1.1 {status} Answer\r\nContent-Length: {length}\r\nConnection: close\r\n");
        *self.answer.lock().unwrap() = format!("{head}{headers}\r\n{body}");
    }

    /// From now on answers with these bytes.
    pub fn answers_raw(&self, bytes: &str) {
        *self.answer.lock().unwrap() = bytes.to_owned();
    }

    /// Answers nobody while `meanwhile` runs.
    pub fn silent_while<T>(&self, meanwhile: impl FnOnce() -> T) -> T {
        let _held = self.gate.write().unwrap();
        meanwhile()
    }

    /// How often it was asked.
    pub fn asked(&self) -> usize {
        self.asked.lock().unwrap().len()
    }

    /// The last question, as `method path` and the credential that came with it.
    #[track_caller]
    pub fn last(&self) -> (String, String) {
        let asked = self.asked.lock().unwrap();
        let last = asked.last().expect("it was asked");
        (last.line.clone(), last.header("authorization").to_owned())
    }
}

fn serve(mut stream: TcpStream, answer: &Mutex<String>, asked: &Mutex<Vec<Received>>, gate: &RwLock<()>) -> Option<()> {
    let received = Received::read(&stream)?;
    asked.lock().unwrap().push(received);
    let _open = gate.read().unwrap();
    let answer = answer.lock().unwrap().clone();
    stream.write_all(answer.as_bytes()).ok()
}
