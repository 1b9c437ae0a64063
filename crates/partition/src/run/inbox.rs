//! Orders from outside, on their way to whoever is waiting: while the machine is still being made they end that.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::Duration;
use std::{io, thread};

use super::main_session::Happened;
use super::{Order, Orders};
use model::partition::asks_to_end;
use platforms::Cancel;

/// How often the thread looks whether it is needed any more.
const LOOK: Duration = Duration::from_millis(200);

/// Forwards orders until dropped.
pub struct Inbox {
    over: Arc<AtomicBool>,
    /// Cancelled by an order that ends a partition, whatever its program does with it.
    pub cancel: Cancel,
}

impl Inbox {
    /// Begins to forward.
    pub fn open(orders: Orders, to: Sender<Happened>) -> io::Result<Self> {
        let inbox = Self { over: Arc::new(AtomicBool::new(false)), cancel: Cancel::new() };
        let (over, cancel) = (Arc::clone(&inbox.over), inbox.cancel.clone());
        thread::Builder::new()
            .name("orders".to_owned())
            .spawn(move || forward(&orders, &to, &over, &cancel))?;
        Ok(inbox)
    }
}

impl Drop for Inbox {
    fn drop(&mut self) {
        self.over.store(true, Ordering::SeqCst);
    }
}

fn forward(orders: &Receiver<Order>, to: &Sender<Happened>, over: &AtomicBool, cancel: &Cancel) {
    while !over.load(Ordering::SeqCst) {
        match orders.recv_timeout(LOOK) {
            Ok(order) => {
                if order == Order::Kill || is_ending(order) {
                    cancel.cancel();
                }
                if to.send(Happened::Ordered(order)).is_err() {
                    return;
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

/// Whether it would end a program that does nothing about it.
pub fn is_ending(order: Order) -> bool {
    matches!(order, Order::Signal(number) if asks_to_end(number))
}
