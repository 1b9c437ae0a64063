//! Drives headless Chromium over its debugging protocol: JSON messages, each ended by a zero byte, through two pipes.
//!
//! The browser wants the pipes as descriptors 3 and 4; the shell that starts it moves them there from its standard
//! input and output, so no unsafe code is needed here.
//!
//! ```text
//!  test ──stdin──► sh 3<&0 ──► chromium
//!       ◄─stdout── sh 4>&1 ◄──
//! ```

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use skips::{Need, skip};

/// Everything a test waits for comes within this time, or the test fails.
const DEADLINE: Duration = Duration::from_secs(60);

const FLAGS: &[&str] = &[
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
];

/// The browser found on this machine.
pub fn find() -> Option<PathBuf> {
    let names = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .flat_map(|folder| names.iter().map(move |name| folder.join(name)))
        .find(|candidate| candidate.is_file())
}

/// The browser; none, and the test is skipped, where there is none.
#[track_caller]
pub fn start_or_skip() -> Option<Browser> {
    let Some(program) = find() else {
        skip(Need::Browser, "no chromium in PATH; install the package chromium to run this test");
        return None;
    };
    Some(Browser::start(&program))
}

/// A running browser with one page.
pub struct Browser {
    child: Child,
    input: Option<ChildStdin>,
    messages: Receiver<Value>,
    session: String,
    next_id: u64,
    /// Events since the last navigation.
    pub events: Vec<Value>,
    _profile: tempfile::TempDir,
}

impl Browser {
    fn start(program: &Path) -> Self {
        let profile = tempfile::tempdir().unwrap();
        let mut child = Command::new("sh")
            .arg("-c")
            .arg("exec \"$@\" 3<&0 4>&1 </dev/null >/dev/null")
            .arg("sh")
            .arg(program)
            .args(FLAGS)
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let output = child.stdout.take().unwrap();
        let (sender, messages) = channel();
        std::thread::spawn(move || {
            for message in BufReader::new(output).split(0) {
                let Ok(bytes) = message else { break };
                let Ok(value) = serde_json::from_slice(&bytes) else { break };
                if sender.send(value).is_err() {
                    break;
                }
            }
        });
        let input = child.stdin.take();
        let mut browser = Self {
            child,
            input,
            messages,
            session: String::new(),
            next_id: 0,
            events: Vec::new(),
            _profile: profile,
        };
        let target = browser.call("Target.createTarget", &json!({"url": "about:blank"}));
        let attached =
            browser.call("Target.attachToTarget", &json!({"targetId": target["targetId"], "flatten": true}));
        attached["sessionId"].as_str().unwrap().clone_into(&mut browser.session);
        for domain in ["Page", "Runtime", "Log", "Network"] {
            browser.call(&format!("{domain}.enable"), &json!({}));
        }
        browser
    }

    fn receive(&self, until: Instant) -> Value {
        let left = until.saturating_duration_since(Instant::now());
        self.messages
            .recv_timeout(left)
            .expect("the browser says nothing more: it ended, or the deadline has passed")
    }

    /// Calls a method and returns its result.
    pub fn call(&mut self, method: &str, params: &Value) -> Value {
        self.next_id += 1;
        let mut message = json!({"id": self.next_id, "method": method, "params": params});
        if !self.session.is_empty() {
            message["sessionId"] = json!(self.session);
        }
        let input = self.input.as_mut().unwrap();
        input.write_all(format!("{message}\0").as_bytes()).unwrap();
        input.flush().unwrap();
        let until = Instant::now() + DEADLINE;
        loop {
            let answer = self.receive(until);
            if answer["id"] == json!(self.next_id) {
                assert!(answer.get("error").is_none(), "{method}: {}", answer["error"]);
                return answer["result"].clone();
            }
            self.events.push(answer);
        }
    }

    /// Opens a file and waits until it is loaded.
    pub fn open(&mut self, file: &Path) {
        self.events.clear();
        self.call("Page.navigate", &json!({"url": format!("file://{}", file.display())}));
        let until = Instant::now() + DEADLINE;
        while !self.events.iter().any(|event| event["method"] == "Page.loadEventFired") {
            let event = self.receive(until);
            self.events.push(event);
        }
    }

    /// Sets the size of the window, and which theme and medium the page sees.
    pub fn show_as(&mut self, width: u32, height: u32, theme: &str, medium: &str) {
        let phone = width < 500;
        let size = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": phone});
        self.call("Emulation.setDeviceMetricsOverride", &size);
        let features = json!([{"name": "prefers-color-scheme", "value": theme}]);
        self.call("Emulation.setEmulatedMedia", &json!({"media": medium, "features": features}));
    }

    /// Switches the page's scripts off or on.
    pub fn scripts(&mut self, on: bool) {
        self.call("Emulation.setScriptExecutionDisabled", &json!({"value": !on}));
    }

    /// Evaluates an expression in the page.
    pub fn evaluate(&mut self, expression: &str) -> Value {
        let answer = self.call("Runtime.evaluate", &json!({"expression": expression, "returnByValue": true}));
        assert!(answer.get("exceptionDetails").is_none(), "{expression}: {answer}");
        answer["result"]["value"].clone()
    }

    /// Everything the page complained about: errors on the console, exceptions, refused loads.
    pub fn complaints(&self) -> Vec<String> {
        let complaint = |event: &&Value| match event["method"].as_str() {
            Some("Runtime.consoleAPICalled") => {
                matches!(event["params"]["type"].as_str(), Some("error" | "warning" | "assert"))
            }
            Some("Log.entryAdded" | "Runtime.exceptionThrown") => true,
            _ => false,
        };
        self.events.iter().filter(complaint).map(Value::to_string).collect()
    }

    /// Addresses of all requests since the last navigation.
    pub fn requests(&self) -> Vec<String> {
        self.events
            .iter()
            .filter(|event| event["method"] == "Network.requestWillBeSent")
            .map(|event| event["params"]["request"]["url"].as_str().unwrap_or_default().to_owned())
            .collect()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // Closing the pipe ends the browser with all its processes; killing makes sure of it.
        drop(self.input.take());
        let until = Instant::now() + Duration::from_secs(5);
        while Instant::now() < until {
            if matches!(self.child.try_wait(), Ok(Some(_))) {
                return;
            }
            let _ = self.messages.recv_timeout(Duration::from_millis(50));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
