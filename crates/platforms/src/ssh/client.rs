//! The OpenSSH client: its options, and what its complaints mean.

use std::process::Command;

use model::experiment::SshSpec;

/// Exit code of the client for its own failures, as opposed to those of the remote command.
pub(super) const OWN_FAILURE: i32 = 255;
/// The client gives up connecting after this many seconds …
const CONNECT_TIMEOUT_S: u32 = 10;
/// … asks a silent server for a sign of life this often …
const ALIVE_INTERVAL_S: u32 = 4;
/// … and gives up after so many unanswered questions.
const ALIVE_COUNT: u32 = 3;

/// A command that runs `remote` on `destination`. The caller has checked both: the remote side is a shell.
pub(super) fn command(ssh: &SshSpec, destination: &str, remote: &str) -> Command {
    let mut command = Command::new("ssh");
    if let Some(config) = &ssh.config {
        command.arg("-F").arg(config);
    }
    if let Some(port) = ssh.port {
        command.arg("-p").arg(port.to_string());
    }
    if let Some(identity) = &ssh.identity {
        command.arg("-i").arg(identity).args(["-o", "IdentitiesOnly=yes"]);
    }
    if let Some(known_hosts) = &ssh.known_hosts {
        // The client splits the value at blanks unless it is quoted; `check` refused quotes in it.
        command.arg("-o").arg(format!("UserKnownHostsFile=\"{known_hosts}\""));
        command.args(["-o", "GlobalKnownHostsFile=/dev/null"]);
    }
    for option in [
        "BatchMode=yes".to_owned(),
        "StrictHostKeyChecking=yes".to_owned(),
        // What would let a wrong key pass: another client's connection, exceptions, and keys from elsewhere. Clients older
        // than 8.5 do not know the last one.
        "ControlMaster=no".to_owned(),
        "ControlPath=none".to_owned(),
        "NoHostAuthenticationForLocalhost=no".to_owned(),
        "VerifyHostKeyDNS=no".to_owned(),
        "IgnoreUnknown=KnownHostsCommand".to_owned(),
        "KnownHostsCommand=none".to_owned(),
        "RemoteCommand=none".to_owned(),
        "UpdateHostKeys=no".to_owned(),
        format!("ConnectTimeout={CONNECT_TIMEOUT_S}"),
        "ConnectionAttempts=1".to_owned(),
        format!("ServerAliveInterval={ALIVE_INTERVAL_S}"),
        format!("ServerAliveCountMax={ALIVE_COUNT}"),
        "ClearAllForwardings=yes".to_owned(),
        "ForwardAgent=no".to_owned(),
        "ForwardX11=no".to_owned(),
        "PermitLocalCommand=no".to_owned(),
        "EscapeChar=none".to_owned(),
        "LogLevel=ERROR".to_owned(),
    ] {
        command.arg("-o").arg(option);
    }
    command.args(["-T", "--", destination, remote]);
    command
}

/// What a complaint of the client means, with what to do; the complaint itself is part of it.
pub fn explain(destination: &str, complaint: &str) -> String {
    let complaint = complaint.trim();
    let has = |words: &[&str]| words.iter().any(|word| complaint.contains(word));
    let advice = if has(&["REMOTE HOST IDENTIFICATION HAS CHANGED"]) {
        "its host key is another one than the known one: somebody may be in between; if the machine was set up anew, \
         remove the old key with ssh-keygen -R and check the new one before you accept it"
    } else if has(&["Host key verification failed", "No ED25519 host key is known", "host key is known"]) {
        "its host key is not known: connect once by hand with ssh and compare the fingerprint, then measure again"
    } else if has(&["Permission denied", "Too many authentication failures"]) {
        "it does not accept the key: put the public key into its authorized_keys, or name another with ssh.identity"
    } else if has(&["Could not resolve hostname", "Name or service not known"]) {
        "its name is not known"
    } else if has(&["Connection refused"]) {
        "no SSH server answers there: is sshd running, is the port right?"
    } else if has(&["timed out", "No route to host", "Network is unreachable"]) {
        "it cannot be reached: is the machine up, is a firewall in between?"
    } else if has(&["not responding", "Broken pipe", "Connection reset", "closed by remote host"]) {
        "the connection was lost"
    } else {
        "ssh failed"
    };
    if complaint.is_empty() {
        format!("{destination}: {advice}")
    } else {
        let lines: Vec<&str> =
            complaint.lines().map(str::trim).filter(|line| !line.starts_with('@')).collect();
        format!("{destination}: {advice} (ssh says: {})", lines.join(" "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec() -> SshSpec {
        SshSpec {
            destinations: vec!["me@there".to_owned()],
            port: Some(2222),
            identity: Some("/keys/id".to_owned()),
            known_hosts: Some("/keys/known hosts".to_owned()),
            config: None,
            addresses: vec![],
            scratch: None,
        }
    }

    #[test]
    fn unknown_keys_are_never_learned_and_nothing_is_forwarded() {
        let command = command(&spec(), "me@there", "uname -sm");
        let words: Vec<String> = command.get_args().map(|word| word.to_string_lossy().into_owned()).collect();
        for wanted in [
            "StrictHostKeyChecking=yes",
            "ControlPath=none",
            "BatchMode=yes",
            "ForwardAgent=no",
            "RemoteCommand=none",
        ] {
            assert!(words.iter().any(|word| word == wanted), "{wanted}: {words:?}");
        }
        assert!(words.iter().any(|word| word == "UserKnownHostsFile=\"/keys/known hosts\""), "{words:?}");
        assert_eq!(words.get(words.len() - 3..).unwrap(), ["--", "me@there", "uname -sm"]);
    }

    #[test]
    fn complaints_are_told_apart() {
        for (complaint, wanted) in [
            (
                "@@@@\n@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @\nHost key verification failed.",
                "another one",
            ),
            ("No ED25519 host key is known for x and you have requested strict checking.", "not known"),
            ("me@there: Permission denied (publickey).", "authorized_keys"),
            ("ssh: connect to host x port 22: Connection refused", "is sshd running"),
            ("ssh: connect to host x port 22: Connection timed out", "firewall"),
            ("Timeout, server x not responding.", "lost"),
            ("something else", "ssh says: something else"),
            ("", "there: ssh failed"),
        ] {
            let text = explain("there", complaint);
            assert!(text.contains(wanted), "{text}");
        }
    }
}
