//! Probes between two partitions, over a network of the set: an agent in each, which begin at one moment.
//!
//! ```text
//!  agent in one ── knock ──► its address in the network ── agent in the other      the first one reports
//! ```

use std::net::{Ipv4Addr, SocketAddr};

use campaign::demand;
use campaign::joint::{Member, Together, together};
use model::partition::set::{PartitionSet, Wiring};
use model::requirement::{DeclaredLoad, RequiredLoad};
use model::verification::Observed;
use platforms::{Broken, Cancel};
use probes::job::{Job, JobReply, Part, Peer};
use probes::params::ProbeSpec;
use units::Reason;
use units::facts::MachineFacts;
use units::names::PlatformKind;

use super::{Agents, Doses, Seat, USUAL_FOLDER, broken, stretched};

/// Where agents listen during a round; this port and the 99 after it.
const FIRST_PORT: u16 = 24_600;

/// A partition, and its address.
pub struct PairEnd {
    name: String,
    address: Ipv4Addr,
}

/// Where two partitions of a set find each other: in the network `over`, or the only one that both are in.
///
/// # Errors
/// There is none, or more than one.
pub fn ends(set: &PartitionSet, pair: &[String; 2], over: Option<&str>) -> Result<[PairEnd; 2], Reason> {
    let wiring = set.wiring().map_err(|fault| Reason::from(fault.problem))?;
    let [one, other] = pair;
    let both = |(name, wired): (String, Wiring)| {
        let end = |of: &String| {
            let number = wired.members.get(of)?.number;
            Some(PairEnd { name: of.clone(), address: wired.subnet.host(number) })
        };
        Some((name, [end(one)?, end(other)?]))
    };
    let wanted = wiring.into_iter().filter(|(name, _)| over.is_none_or(|over| over == name));
    let mut all: Vec<(String, [PairEnd; 2])> = wanted.filter_map(both).collect();
    if all.len() > 1 {
        let names: Vec<String> = all.into_iter().map(|(name, _)| name).collect();
        return Err(
            format!("{one} and {other} are both in {}: write over = \"NAME\"", names.join(", ")).into()
        );
    }
    let network =
        over.map_or_else(|| "in no network".to_owned(), |over| format!("not in network \"{over}\""));
    let missing = || format!("{one} and {other} are {network} together").into();
    all.pop().map(|(_, ends)| ends).ok_or_else(missing)
}

impl Agents<'_> {
    /// Measures once between two.
    ///
    /// # Errors
    /// It broke, or the user interrupted.
    pub fn between(
        &mut self,
        ends: &[PairEnd; 2],
        probe: &ProbeSpec,
        load: &RequiredLoad,
        seed: u64,
    ) -> Result<(Observed, Doses), Broken> {
        let seats = ends.each_ref().map(|end| Seat {
            partition: Some(end.name.clone()),
            is_apart: false,
            folder: USUAL_FOLDER.to_owned(),
            number: 0,
        });
        let longest = |facts: &MachineFacts| stretched(demand::deadline(probe, facts)).to_duration();
        let loads: Vec<&DeclaredLoad> = load.declared().iter().collect();
        let host = Seat { partition: None, ..seats[0].clone() };
        let mut begun = self.begin_loads(&host, &loads, &longest, seed)?;
        let replies = self.together(ends, &seats, probe, seed);
        let doses = self.end_loads(&mut begun);
        let (outcome, doses) = (replies?, doses?);
        Ok((outcome, doses))
    }

    fn together(
        &mut self,
        ends: &[PairEnd; 2],
        seats: &[Seat; 2],
        probe: &ProbeSpec,
        seed: u64,
    ) -> Result<Observed, Broken> {
        let peer =
            |(port, end): (u16, &PairEnd)| Peer { host: 0, address: SocketAddr::from((end.address, port)) };
        let peers: Vec<Peer> = [FIRST_PORT, FIRST_PORT + 100].into_iter().zip(ends).map(peer).collect();
        let mut members = Vec::new();
        for (rank, seat) in (0..).zip(seats) {
            let id = self.next_job();
            self.at(seat)?;
            let Some(instance) = self.there.remove(seat) else { return Err(Broken::Interrupted) };
            let facts = instance.facts().clone();
            if probe.memory(&facts).get() > facts.memory_bytes.unwrap_or_default().get() / super::MEMORY_PART
            {
                let reason = "the probe fills more than a quarter of the partition's memory: set smaller messages in params";
                return Ok(Observed::Failed { reason: reason.into() });
            }
            let job = Job {
                id,
                probe: Some(probe.clone()),
                seed,
                deadline_ms: stretched(demand::deadline(probe, &facts)),
                part: Some(Part { rank, ranks: 2, peers: peers.clone() }),
                ..Job::default()
            };
            members.push(Member { seat: seat.clone(), instance, job });
        }
        let Together { members, replies, .. } = together(members, PlatformKind::Vm, true, self.cancel);
        if replies.iter().all(Result::is_ok) {
            self.there.extend(members.into_iter().map(|member| (member.seat, member.instance)));
        }
        first_report(replies, self.cancel)
    }
}

/// What the first of them reports.
fn first_report(replies: Vec<Result<JobReply, Broken>>, cancel: &Cancel) -> Result<Observed, Broken> {
    // Who was ended because the other one broke says nothing of why.
    let (ended, others): (Vec<_>, Vec<_>) =
        replies.into_iter().partition(|reply| matches!(reply, Err(Broken::Interrupted)));
    let replies = others.into_iter().collect::<Result<Vec<JobReply>, Broken>>()?;
    if !ended.is_empty() {
        let alone = || broken(&"an agent ended before the other one".into());
        return Err(if cancel.is_cancelled() { Broken::Interrupted } else { alone() });
    }
    Ok(match replies.into_iter().next().and_then(|reply| reply.report) {
        Some(Ok(report)) => Observed::Measured { report: Box::new(report) },
        Some(Err(reason)) => Observed::Failed { reason },
        None => Observed::Failed { reason: "the agent sent no report".into() },
    })
}
