//! The host's end of a worker: orders go out, answers come in through a thread, every wait has a deadline.

use std::io::{BufReader, Read, Write};
use std::os::fd::OwnedFd;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

use super::lines::{line_of, read_line};
use model::channel_worker::{WorkerAnswer, WorkerOrder, read_answer};
use platforms::Cancel;
use units::Reason;

/// How often it is looked whether the user interrupts.
const LOOK: Duration = Duration::from_millis(50);
/// Answers that may wait to be read.
const WAITING: usize = 16;

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoAnswer {
    /// The worker says so, or cannot be reached any more: to be recorded.
    Failed(Reason),
    /// The user interrupted.
    Interrupted,
}

impl From<Reason> for NoAnswer {
    fn from(reason: Reason) -> Self {
        Self::Failed(reason)
    }
}

/// A worker as the host sees it.
pub struct WorkerHandle {
    name: String,
    to: std::fs::File,
    from: Receiver<Result<WorkerAnswer, Reason>>,
    /// Why nothing can be asked any more.
    lost: Option<Reason>,
    /// Its process is gone: how it ended is known in a moment.
    has_ended: bool,
    /// An order was given that is not answered yet.
    is_busy: bool,
    cancel: Cancel,
}

impl WorkerHandle {
    /// Over the worker's standard input and output.
    ///
    /// # Errors
    /// When no thread can be started.
    pub fn new(name: &str, to: OwnedFd, from: OwnedFd, cancel: &Cancel) -> std::io::Result<Self> {
        let (answers, inbox) = sync_channel(WAITING);
        let reading = move || {
            let mut from = BufReader::new(std::fs::File::from(from));
            while let Some(answer) = next_answer(&mut from) {
                let is_broken = answer.is_err();
                if answers.send(answer).is_err() || is_broken {
                    return;
                }
            }
        };
        std::thread::Builder::new().name(format!("answers of {name}")).spawn(reading)?;
        Ok(Self {
            name: name.to_owned(),
            to: to.into(),
            from: inbox,
            lost: None,
            has_ended: false,
            is_busy: false,
            cancel: cancel.clone(),
        })
    }

    /// Whether nothing is under way: then it ends at once when it is told to.
    pub fn is_idle(&self) -> bool {
        !self.is_busy && self.lost.is_none()
    }

    /// Gives an order without waiting for its answer.
    ///
    /// # Errors
    /// When the worker is gone.
    pub fn order(&mut self, order: &WorkerOrder) -> Result<(), NoAnswer> {
        if let Some(lost) = &self.lost {
            return Err(NoAnswer::Failed(lost.clone()));
        }
        let line = line_of(order)?;
        self.is_busy = true;
        self.to.write_all(&line).map_err(|error| self.end(&format!("has ended ({error})")))
    }

    /// Waits for the answer to the order with this number.
    ///
    /// # Errors
    /// What the worker could not do, or that it is gone or silent; then it is not asked again.
    pub fn answer(&mut self, number: u64, patience: Duration) -> Result<WorkerAnswer, NoAnswer> {
        if let Some(lost) = &self.lost {
            return Err(NoAnswer::Failed(lost.clone()));
        }
        let until = Instant::now() + patience;
        loop {
            match self.from.recv_timeout(LOOK) {
                Ok(Ok(WorkerAnswer::Failed { number: got, reason })) if got == number => {
                    self.is_busy = false;
                    return Err(NoAnswer::Failed(format!("{}: {reason}", self.name).into()));
                }
                Ok(Ok(answer)) if answer.number() == number => {
                    self.is_busy = false;
                    return Ok(answer);
                }
                Ok(Ok(answer)) => {
                    let got = answer.number();
                    return Err(self.lose(&format!("was asked for answer {number} and gave {got}")));
                }
                Ok(Err(reason)) => return Err(self.lose(&reason.to_string())),
                Err(RecvTimeoutError::Disconnected) => return Err(self.end("has ended")),
                Err(RecvTimeoutError::Timeout) if self.cancel.is_cancelled() => {
                    return Err(NoAnswer::Interrupted);
                }
                Err(RecvTimeoutError::Timeout) if Instant::now() >= until => {
                    return Err(self.lose(&format!("gave no answer within {} s", patience.as_secs())));
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    /// Notes why it is gone.
    pub fn lose(&mut self, why: &str) -> NoAnswer {
        let lost = Reason::from(format!("{} {why}", self.name));
        self.lost = Some(lost.clone());
        NoAnswer::Failed(lost)
    }

    /// Why it is gone, if it is.
    pub fn lost(&self) -> Option<&Reason> {
        self.lost.as_ref()
    }

    fn end(&mut self, why: &str) -> NoAnswer {
        self.has_ended = true;
        self.lose(why)
    }

    /// Whether it is gone because its process is.
    pub const fn has_ended(&self) -> bool {
        self.has_ended
    }
}

fn next_answer(from: &mut BufReader<impl Read>) -> Option<Result<WorkerAnswer, Reason>> {
    match read_line(from) {
        Ok(None) => None,
        Ok(Some(line)) => Some(read_answer(&line)),
        Err(error) => Some(Err(format!("cannot be read: {error}").into())),
    }
}

#[cfg(test)]
mod tests {
    use std::io::pipe;

    use super::*;
    use model::channel_worker::Seen;

    fn handle() -> (WorkerHandle, std::io::PipeReader, std::io::PipeWriter) {
        let ((orders, to), (from, answers)) = (pipe().unwrap(), pipe().unwrap());
        (WorkerHandle::new("the worker", to.into(), from.into(), &Cancel::new()).unwrap(), orders, answers)
    }

    fn say(answers: &mut std::io::PipeWriter, answer: &WorkerAnswer) {
        answers.write_all(&line_of(answer).unwrap()).unwrap();
    }

    fn words(answer: Result<WorkerAnswer, NoAnswer>) -> String {
        match answer {
            Err(NoAnswer::Failed(reason)) => reason.into(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn answers_belong_to_orders() {
        let (mut handle, _orders, mut answers) = handle();
        handle.order(&WorkerOrder::Bye).unwrap();
        say(&mut answers, &WorkerAnswer::Outcome { number: 2, seen: Seen::default() });
        say(&mut answers, &WorkerAnswer::Failed { number: 3, reason: "no memory".to_owned() });
        say(&mut answers, &WorkerAnswer::Outcome { number: 9, seen: Seen::default() });
        let patience = Duration::from_secs(20);
        assert!(handle.answer(2, patience).is_ok());
        assert_eq!(words(handle.answer(3, patience)), "the worker: no memory");
        assert!(handle.lost().is_none());
        assert!(words(handle.answer(4, patience)).contains("gave 9"));
        assert!(words(handle.answer(4, patience)).contains("gave 9"), "it is not asked again");
    }

    #[test]
    fn a_worker_that_ends_is_silent_or_talks_nonsense_is_lost() {
        let (mut silent, _orders, answers) = handle();
        assert!(words(silent.answer(1, Duration::ZERO)).contains("no answer"));
        drop(answers);
        let (mut ended, orders, answers) = handle();
        drop((orders, answers));
        assert!(words(ended.answer(1, Duration::from_secs(20))).contains("has ended"));
        assert!(ended.order(&WorkerOrder::Bye).is_err());
        let (mut mad, _orders, mut answers) = handle();
        answers.write_all(b"what?\n").unwrap();
        assert!(words(mad.answer(1, Duration::from_secs(20))).contains("wanted an answer"));
    }
}
