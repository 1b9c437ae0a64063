//! A server that answers with the sum of the request's bytes, and a client that asks it, in two threads that share
//! nothing but the sealed memory of two sections: `cargo run -p bulkhead-channel --example request_response`.
#![expect(clippy::print_stdout, reason = "an example reports")]

use std::error::Error;
use std::thread;
use std::time::{Duration, Instant};

use channel::{Client, Endpoint, Gone, Layout, Memory, PeerSection, Section, Server};

const SOON: Duration = Duration::from_secs(10);
const CALLS: u32 = 2000;

/// A section of our own, and what the peer gets to see of it.
fn section(me: u32, peer: u32) -> Result<(Section, PeerSection), Box<dyn Error>> {
    let layout = Layout::new(me).ring(peer, 64 << 10);
    let memory = Memory::sealed("section", layout.bytes())?;
    let file = memory.file().ok_or("sealed memory has a file")?.try_clone()?;
    let view = PeerSection::new(Memory::from_file(file, "the peer's section", false)?)?;
    Ok((Section::create_in(memory, &layout)?, view))
}

fn serve(mut server: Server) -> Result<(), channel::Error> {
    loop {
        let sum = |request: &[u8], response: &mut Vec<u8>| {
            let sum: u64 = request.iter().map(|byte| u64::from(*byte)).sum();
            response.extend(sum.to_le_bytes());
        };
        match server.serve(SOON, sum) {
            Ok(()) => {}
            Err(channel::Error::PeerGone { how: Gone::Closed, .. }) => return Ok(()),
            Err(error) => return Err(error),
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let (ours, our_view) = section(1, 2)?;
    let (its, its_view) = section(2, 1)?;
    let server = thread::spawn(move || serve(Server::new(Endpoint::connect(&its, 1, &our_view, SOON)?)));
    let mut client = Client::new(Endpoint::connect(&ours, 2, &its_view, SOON)?);
    let started = Instant::now();
    for number in 0..CALLS {
        let request = number.to_le_bytes();
        let wanted: u64 = request.iter().map(|byte| u64::from(*byte)).sum();
        if client.call(&request, SOON)? != wanted.to_le_bytes() {
            return Err("the server cannot add".into());
        }
    }
    println!("{CALLS} calls, {:?} each", started.elapsed() / CALLS);
    drop(client);
    server.join().map_err(|_| "the server panicked")??;
    Ok(())
}
