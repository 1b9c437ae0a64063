//! Several instances that measure at once: all are made ready, told one moment of the host's clock, and heard out.
//!
//! ```text
//!  begin ─┬─ Running ─┐                         ┌─ finish ─┐
//!  begin ─┼─ Running ─┼─ start = now + margin ──┼─ finish ─┼─► replies, one per instance
//!  begin ─┴─ Running ─┘                         └─ finish ─┘
//!         one breaks ─► each for itself: the others go on to their end
//!                       made together:   not for long, who has not ended GRACE later is ended
//! ```

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use super::host_memory::Before;
use platforms::host::cpu_log::CpuLog;
use platforms::host::watch::Watch;
use platforms::instance::monotonic_now;
use platforms::{Broken, Cancel, Instance};
use probes::ProbeKind;
use probes::job::{Job, JobReply};
use probes::params::ProbeSpec;
use units::Nanos;
use units::accounts::HostAccount;
use units::names::PlatformKind;

/// From the decision to the start, where instances hear at once.
const MARGIN: Duration = Duration::from_millis(50);
/// The same where they are reached through an emulated device, or a network, and ask for the clock once more.
const FAR_MARGIN: Duration = Duration::from_millis(250);
/// More of it for each further instance: they are told one after the other and share the CPUs.
const MARGIN_EACH: Duration = Duration::from_millis(5);
/// How long the others of a probe that is made together may go on when one has broken; those that wait for it would wait
/// for ever.
const GRACE: Duration = Duration::from_secs(15);
/// How often it is looked whether the user interrupted.
const LOOK: Duration = Duration::from_millis(50);

/// One of them.
pub struct Member<S> {
    /// Its place, as whoever keeps it names that.
    pub seat: S,
    /// The instance.
    pub instance: Box<dyn Instance>,
    /// What it is asked to do.
    pub job: Job,
}

/// What came of it; replies in the order of the members.
pub struct Together<S> {
    /// Those that measured.
    pub members: Vec<Member<S>>,
    /// What each answered.
    pub replies: Vec<Result<JobReply, Broken>>,
    /// What the host saw of the first one.
    pub host: Option<HostAccount>,
    /// CPU time of each over time, where it was asked for and can be told.
    pub logs: Vec<Option<CpuLog>>,
}

/// Has all members measure at once and waits for all of them; `needs_all` says that they make their probe together. A
/// member that was ended because another one broke then, or because the user interrupted, is [`Broken::Interrupted`].
pub fn together<S: Send>(
    mut members: Vec<Member<S>>,
    kind: PlatformKind,
    needs_all: bool,
    cancel: &Cancel,
) -> Together<S> {
    let grace = needs_all.then_some(GRACE);
    let memory = members.first_mut().map(|first| {
        let probe = first.job.probe.as_ref().map(ProbeSpec::kind);
        Before::look(first.instance.as_mut(), probe)
    });
    let begun =
        each(&mut members, grace, cancel, |member, cancel| member.instance.begin(&member.job, cancel));
    // Whoever is told to start does so soon: the host looks before that.
    let watching = Watching::start(&members, kind);
    let at = start_moment(kind, members.len());
    let mut waiting: Vec<Result<(), Broken>> = Vec::with_capacity(begun.len());
    for (member, begun) in members.iter_mut().zip(begun) {
        waiting.push(begun.and_then(|()| member.instance.start_at(at)));
    }
    let mut ready: Vec<(&mut Member<S>, Result<(), Broken>)> = members.iter_mut().zip(waiting).collect();
    let replies = each(&mut ready, grace, cancel, |(member, waiting), cancel| {
        std::mem::replace(waiting, Ok(())).and_then(|()| member.instance.finish(cancel))
    });
    let (mut host, logs) = watching.stop();
    if let (Some(memory), Some(first)) = (memory, members.first_mut()) {
        memory.look_again(first.instance.as_mut(), &mut host);
    }
    Together { members, replies, host, logs }
}

/// The host's look at the members: at the first one, or closely at all of them when each exchange of a network probe is to
/// have its CPU time.
struct Watching {
    watches: Vec<Watch>,
    closely: bool,
    keeps_slices: bool,
}

impl Watching {
    fn start<S>(members: &[Member<S>], kind: PlatformKind) -> Self {
        let probe = members.first().and_then(|first| first.job.probe.as_ref());
        let closely = probe.is_some_and(|probe| probe.kind() == ProbeKind::Net);
        let looked_at = members.iter().take(if closely { members.len() } else { 1 });
        let watches = looked_at.map(|member| {
            let processes = member.instance.processes();
            if closely { Watch::closely(&processes, kind) } else { Watch::start(&processes, kind) }
        });
        Self { watches: watches.collect(), closely, keeps_slices: kind == PlatformKind::Vm }
    }

    fn stop(self) -> (Option<HostAccount>, Vec<Option<CpuLog>>) {
        let seen: Vec<_> = self.watches.into_iter().map(Watch::stop_with_log).collect();
        let mut host = seen.first().cloned().flatten().map(|(account, _)| account);
        if let Some(host) = host.as_mut().filter(|_| !self.keeps_slices) {
            host.slices.clear();
        }
        let logs = seen.into_iter().map(|seen| Some(seen?.1)).filter(|_| self.closely);
        (host, logs.collect())
    }
}

fn start_moment(kind: PlatformKind, members: usize) -> Nanos {
    let base = match kind {
        PlatformKind::Native | PlatformKind::Container | PlatformKind::Fake | PlatformKind::Sim => MARGIN,
        PlatformKind::Vm | PlatformKind::Ssh => FAR_MARGIN,
    };
    let more = MARGIN_EACH.saturating_mul(u32::try_from(members).unwrap_or(u32::MAX));
    monotonic_now().saturating_add(Nanos::from_duration(base.saturating_add(more)))
}

/// Does something with each of them in a thread of its own, and keeps the order of the results. With a grace nobody goes on
/// for longer than that after one has broken.
fn each<T: Send, R: Send>(
    items: &mut [T],
    grace: Option<Duration>,
    cancel: &Cancel,
    act: impl Fn(&mut T, &Cancel) -> Result<R, Broken> + Sync,
) -> Vec<Result<R, Broken>> {
    let token = Cancel::new();
    let (done, news) = channel();
    let mut results: Vec<Option<Result<R, Broken>>> = items.iter().map(|_| None).collect();
    std::thread::scope(|scope| {
        for (index, item) in items.iter_mut().enumerate() {
            let (act, done, token): (_, Sender<_>, _) = (&act, done.clone(), token.clone());
            let work = move || {
                // Whoever listens does so until every thread has answered.
                let _ = done.send((index, act(item, &token)));
            };
            if let Err(error) =
                std::thread::Builder::new().name("member".to_owned()).spawn_scoped(scope, work)
            {
                let reason = format!("no thread for instance {}: {error}", index + 1);
                if let Some(place) = results.get_mut(index) {
                    *place = Some(Err(super::measure::not_started(reason)));
                }
            }
        }
        drop(done);
        collect(&mut results, &news, (cancel, grace), &token);
    });
    let lost = || Err(super::measure::not_started("its thread ended without an answer".to_owned()));
    results.into_iter().map(|result| result.unwrap_or_else(lost)).collect()
}

/// Hears the results; passes the user's interruption on, and ends who goes on beyond the grace after one has broken.
fn collect<R>(
    results: &mut [Option<Result<R, Broken>>],
    news: &Receiver<(usize, Result<R, Broken>)>,
    (cancel, grace): (&Cancel, Option<Duration>),
    token: &Cancel,
) {
    let mut broke_at: Option<Instant> = None;
    loop {
        if cancel.is_cancelled() || broke_at.zip(grace).is_some_and(|(at, grace)| at.elapsed() >= grace) {
            token.cancel();
        }
        match news.recv_timeout(LOOK) {
            Ok((index, result)) => {
                if result.is_err() && broke_at.is_none() {
                    broke_at = Some(Instant::now());
                }
                if let Some(place) = results.get_mut(index) {
                    *place = Some(result);
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::journal::{Failure, FailureKind};

    fn broken() -> Broken {
        Failure { kind: FailureKind::Died, reason: "gone".to_owned(), console: vec![] }.into()
    }

    #[test]
    fn results_keep_their_order_and_one_that_breaks_takes_nobody_along() {
        let mut items = [30u64, 1, 15];
        let results = each(&mut items, Some(GRACE), &Cancel::new(), |item, _| {
            std::thread::sleep(Duration::from_millis(*item));
            if *item == 1 { Err(broken()) } else { Ok(*item) }
        });
        assert_eq!(results, [Ok(30), Err(broken()), Ok(15)]);
    }

    #[test]
    fn only_those_that_need_each_other_are_ended_when_one_breaks() {
        let until_ended = |grace: Option<Duration>| {
            let mut items = [400u64, 0];
            each(&mut items, grace, &Cancel::new(), |item, token| {
                let end = Instant::now() + Duration::from_millis(*item);
                while Instant::now() < end {
                    if token.is_cancelled() {
                        return Err(Broken::Interrupted);
                    }
                    std::thread::sleep(Duration::from_millis(1));
                }
                if *item == 0 { Err(broken()) } else { Ok(*item) }
            })
        };
        assert_eq!(until_ended(None), [Ok(400), Err(broken())], "each for itself");
        assert_eq!(until_ended(Some(Duration::from_millis(1))), [Err(Broken::Interrupted), Err(broken())]);
    }

    #[test]
    fn the_users_interruption_reaches_everybody() {
        let cancel = Cancel::new();
        let canceller = cancel.clone();
        let mut items = [0, 0];
        let results: Vec<Result<(), Broken>> = std::thread::scope(|scope| {
            scope.spawn(move || canceller.cancel());
            each(&mut items, None, &cancel, |_, token| {
                while !token.is_cancelled() {
                    std::thread::sleep(Duration::from_millis(1));
                }
                Err(Broken::Interrupted)
            })
        });
        assert_eq!(results, [Err(Broken::Interrupted), Err(Broken::Interrupted)]);
    }

    #[test]
    fn the_start_leaves_room_for_telling_everybody() {
        let now = monotonic_now();
        let far = start_moment(PlatformKind::Vm, 16).saturating_sub(now).to_duration();
        assert!(far >= FAR_MARGIN + MARGIN_EACH * 16, "{far:?}");
    }
}
