//! A link between two sections: how both sides agree on a session, and how its end is seen.
//!
//! ```text
//!  we                                                          the peer
//!  new session S, indices to zero ──────────────────────────►  sees S, acknowledges it, indices to zero
//!  sees session P, acknowledges it ◄─────────────────────────  new session P
//!  up when: the peer acknowledged S, and its session is still P
//! ```
//!
//! A session is a generation and a count, so it changes whenever a side starts or connects anew. An index counts only
//! while both sessions stand. Sessions change before anything else does, acknowledgements after everything else.

use std::sync::Arc;
use std::time::Duration;

use crate::atomic::{acquire, release};
use crate::error::{Error, Result};
use crate::layout::{ACK, CLOSED, HEAD, LINK_WORDS, SESSION, TAIL, link_block};
use crate::ring::{Consumer, Producer};
use crate::section::{Inner, Offer, PeerSection, Section};
use crate::state::{Change, State, StateWord};
use crate::wait::{Patience, Then};
use crate::words::{Foreign, Own};

/// A link that is up. Dropping it tells the peer.
#[derive(Debug)]
pub(crate) struct Link {
    claim: Arc<Claim>,
    pub(crate) peer: PeerSection,
    pub(crate) number: u32,
    /// The peer's link block.
    block: Foreign,
    generation: u64,
    session: u64,
}

/// The right to use a link of our section.
#[derive(Debug)]
pub(crate) struct Claim {
    section: Arc<Inner>,
    link: usize,
    control: Own,
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.section.unclaim(self.link);
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        close(&self.claim.control, self.session);
    }
}

/// Marks a session as ended in good order, unless a newer one has taken its place.
fn close(control: &Own, session: u64) {
    if control.load(SESSION) == session {
        release();
        control.store(SESSION, session | CLOSED);
    }
}

/// How a peer's section looks in the middle of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Health {
    Well,
    Ended,
    Restarted,
    Damaged(u64),
}

impl Link {
    /// What the peer writes for this link.
    #[inline]
    pub(crate) fn block(&self) -> &Foreign {
        &self.block
    }

    /// What the peer's state word says about the generation that this link belongs to.
    pub(crate) fn health(&self) -> Health {
        let before = StateWord { state: State::Ready, generation: self.generation };
        let Ok(now) = self.peer.state() else { return Health::Damaged(0) };
        match before.change_to(now) {
            Change::Advanced if now.state == State::Gone => Health::Ended,
            Change::Same | Change::Advanced => Health::Well,
            Change::Restarted => Health::Restarted,
            Change::Impossible => Health::Damaged(now.encode()),
        }
    }
}

/// A link with its two rings.
pub(crate) type Established = (Arc<Link>, Producer, Consumer);

/// Connects for the first time.
pub(crate) fn establish(
    section: &Section,
    number: u32,
    peer: &PeerSection,
    timeout: Duration,
) -> Result<Established> {
    shake_hands(Handshake::begin(claim(section, number)?, peer, number), timeout)
}

/// The right to use our link to a party.
pub(crate) fn claim(section: &Section, number: u32) -> Result<Arc<Claim>> {
    let inner = &section.inner;
    let Some((link, _)) = inner.layout.link_to(number) else {
        return Err(Error::NoRing { from: inner.layout.writer, to: number });
    };
    let control = Own::new(&inner.memory, link_block(link), LINK_WORDS);
    let control =
        control.ok_or_else(|| Error::InUse(format!("{}: cannot be written", inner.memory.name())))?;
    if !inner.claim(link) {
        return Err(Error::InUse(format!("the link to {number} has an endpoint already; drop that first")));
    }
    Ok(Arc::new(Claim { section: Arc::clone(inner), link, control }))
}

impl Link {
    /// Connects anew over the same sections.
    pub(crate) fn establish_again(&self, timeout: Duration) -> Result<Established> {
        shake_hands(Handshake::begin(Arc::clone(&self.claim), &self.peer, self.number), timeout)
    }
}

/// Passes errors on that waiting cannot mend; pauses otherwise.
fn wait_for(error: Error, peer: &PeerSection, patience: &mut Patience, timeout: Duration) -> Result<()> {
    // An owner may be in the middle of its first start: noise is passed on when the time is over.
    if !matches!(error, Error::NotReady { .. } | Error::NotASection { .. } | Error::Damaged { .. }) {
        return Err(error);
    }
    match patience.pause() {
        Then::GiveUp if matches!(error, Error::NotReady { .. }) => {
            Err(Error::Timeout { doing: format!("wait for a peer ({error})"), after: timeout })
        }
        Then::GiveUp => Err(error),
        Then::LookAtPeer => peer.memory().check_size(),
        Then::Look => Ok(()),
    }
}

/// A handshake under way. Dropping it before the link is up tells the peer.
#[derive(Debug)]
pub(crate) struct Handshake {
    claim: Arc<Claim>,
    peer: PeerSection,
    number: u32,
    mine: u64,
    offer: Option<Offer>,
    adopted: u64,
    up: bool,
}

impl Handshake {
    /// Takes a new session, which the peer sees from now on.
    pub(crate) fn begin(claim: Arc<Claim>, peer: &PeerSection, number: u32) -> Self {
        let mine = claim.section.new_session();
        // Who still reads in an earlier session looks at the session after the indices.
        claim.control.store(SESSION, mine);
        release();
        for at in [TAIL, HEAD, ACK] {
            claim.control.store(at, 0);
        }
        Self { claim, peer: peer.clone(), number, mine, offer: None, adopted: 0, up: false }
    }

    /// One round; the link when it is up.
    pub(crate) fn step(&mut self) -> Result<Option<Established>> {
        let Self { claim, peer, number, mine, offer, adopted, up } = self;
        let Some(offer) = agree(claim, peer, *number, *mine, offer, adopted)? else { return Ok(None) };
        let established = assemble(claim, peer, offer, *mine, *adopted)?;
        *up = true;
        Ok(Some(established))
    }
}

impl Drop for Handshake {
    fn drop(&mut self) {
        if !self.up {
            close(&self.claim.control, self.mine);
        }
    }
}

fn shake_hands(mut handshake: Handshake, timeout: Duration) -> Result<Established> {
    let mut patience = Patience::new(timeout);
    loop {
        let made = handshake.step();
        let (peer, number) = (&handshake.peer, handshake.number);
        match made {
            Ok(Some(established)) => return Ok(established),
            Ok(None) => match patience.pause() {
                Then::GiveUp => Err(Error::Timeout { doing: waiting(peer, number), after: timeout }),
                Then::LookAtPeer => peer.memory().check_size(),
                Then::Look => Ok(()),
            },
            Err(error) => wait_for(error, peer, &mut patience, timeout),
        }?;
    }
}

/// One round of the handshake; the peer's offer when the link is up.
fn agree(
    claim: &Claim,
    peer: &PeerSection,
    number: u32,
    mine: u64,
    offer: &mut Option<Offer>,
    adopted: &mut u64,
) -> Result<Option<Offer>> {
    let generation = peer.state()?.generation;
    let theirs = match offer.take() {
        Some(known) if known.generation == generation => known,
        _ => peer.offer(claim.section.layout.writer)?,
    };
    if theirs.writer != number {
        return Err(Error::WrongPeer { wanted: number, got: theirs.writer });
    }
    let session = theirs.block.load(SESSION);
    let lives = session & CLOSED == 0 && session >> 16 == theirs.generation;
    if lives && session != *adopted {
        *adopted = session;
        release();
        claim.control.store(ACK, session);
    }
    let acknowledged = theirs.block.load(ACK);
    acquire();
    let again = theirs.block.load(SESSION);
    let up = *adopted != 0 && acknowledged == mine && again & !CLOSED == *adopted;
    *offer = Some(theirs);
    Ok(offer.clone().filter(|_| up))
}

fn waiting(peer: &PeerSection, number: u32) -> String {
    let state =
        peer.state().map_or_else(|error| error.to_string(), |word| format!("its section is {}", word.state));
    format!("wait until peer {number} connects ({state}; does it run, and does it connect to us?)")
}

fn assemble(
    claim: &Arc<Claim>,
    peer: &PeerSection,
    offer: Offer,
    mine: u64,
    session: u64,
) -> Result<Established> {
    let section = &claim.section;
    let damaged = || Error::BadLayout("our own ring lies outside of our section".to_owned());
    let (_, entry) = section.layout.link_to(offer.writer).ok_or_else(damaged)?;
    let (from, words) = entry.words();
    let ring = Own::new(&section.memory, from, words).ok_or_else(damaged)?;
    let control = claim.control.clone();
    let producer = Producer::new(ring, control.clone(), offer.block.clone(), mine, session);
    let block = offer.block.clone();
    let consumer = Consumer::new(offer.ring, offer.capacity, offer.block, control, session);
    let link = Link {
        claim: Arc::clone(claim),
        peer: peer.clone(),
        number: offer.writer,
        block,
        generation: offer.generation,
        session: mine,
    };
    Ok((Arc::new(link), producer, consumer))
}
