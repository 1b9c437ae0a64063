//! The control channel of a stand-in for QEMU: a machine whose CPUs are one thread and whose memory is never touched.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;

use nix::unistd::gettid;
use serde_json::{Value, json};

/// What the control channel is told when it asks.
pub struct Answers {
    cpus: u32,
    memory: Vec<u8>,
    thread: i32,
    words: String,
}

impl Answers {
    /// As the command line says, its words joined by spaces.
    pub fn of(words: &str) -> Self {
        let after = |mark: &str| words.split_once(mark).expect("said").1;
        let number = |text: &str| {
            text.chars()
                .take_while(char::is_ascii_digit)
                .collect::<String>()
                .parse::<u32>()
                .expect("a number")
        };
        let mib = number(after("-m ")) as usize;
        // Never touched, so it is only a range of addresses.
        let memory = Vec::with_capacity(mib << 20);
        Self { cpus: number(after("cpus=")), memory, thread: gettid().as_raw(), words: words.to_owned() }
    }

    fn to(&self, command: &str, arguments: &Value) -> Value {
        match command {
            "query-cpus-fast" => {
                (0..self.cpus).map(|cpu| json!({"cpu-index": cpu, "thread-id": self.thread})).collect()
            }
            "query-memory-size-summary" => json!({"base-memory": self.memory.capacity()}),
            "query-block" => json!([]),
            "qom-get" => self.property(arguments),
            "human-monitor-command" => {
                json!(format!(
                    "Host virtual address for 0x0 (ram) is {:#x}\r\n",
                    self.memory.as_ptr().addr() & !4095
                ))
            }
            _ => json!({}),
        }
    }

    /// Of an object, as the command line made it.
    fn property(&self, of: &Value) -> Value {
        let id = of["path"].as_str().and_then(|path| path.strip_prefix("/objects/")).expect("an object");
        let id = format!("id={id}");
        let made = self.words.split(' ').find(|word| word.split(',').any(|part| part == id)).expect("made");
        let name = format!("{}=", of["property"].as_str().expect("a property"));
        match made.split(',').find_map(|part| part.strip_prefix(&name)) {
            None => json!(false),
            Some("on") => json!(true),
            Some(number) => json!(number.parse::<u64>().expect("a number")),
        }
    }
}

/// Greets, then answers until nobody asks any more, or `let_go` says after the order to go on that this was enough.
pub fn answer(control: UnixStream, answers: &Answers, let_go: &mut dyn FnMut() -> bool) {
    let mut out = control.try_clone().expect("a socket");
    out.write_all(b"{\"QMP\": {\"version\": {}, \"capabilities\": []}}\n").expect("written");
    for line in BufReader::new(control).lines().map_while(Result::ok) {
        let asked: Value = serde_json::from_str(&line).expect("JSON");
        let command = asked["execute"].as_str().unwrap_or_default();
        let text = json!({ "return": answers.to(command, &asked["arguments"]) }).to_string();
        if writeln!(out, "{text}").is_err() || (command == "cont" && let_go()) {
            return;
        }
    }
}
