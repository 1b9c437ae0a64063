//! The structures and numbers of `ffi::types` are those of the real headers: a small C program says what they are there.

use std::fmt::Write as _;
use std::mem::offset_of;
use std::process::Command;

use bulkhead_fi::ffi::types::*;

/// An expression in C, and what it is here.
type Fact = (String, String);

macro_rules! layout {
    ($facts:ident, $name:ident: $($field:ident $(as $c:ident)?),+) => {
        $facts.push((format!("sizeof(struct {})", stringify!($name)), size_of::<$name>().to_string()));
        $(
            #[allow(unused_mut, unused_assignments)]
            let mut c = stringify!($field);
            $(c = stringify!($c);)?
            let offset = offset_of!($name, $field).to_string();
            $facts.push((format!("offsetof(struct {}, {c})", stringify!($name)), offset));
        )+
    };
}

macro_rules! numbers {
    ($facts:ident, $($name:ident),+ $(,)?) => { $($facts.push((stringify!($name).to_owned(), $name.to_string()));)+ };
}

fn attributes(facts: &mut Vec<Fact>) {
    layout!(facts, fid: fclass, context, ops);
    layout!(facts, fi_ops: size, close, bind, control, ops_open, tostr, ops_set);
    layout!(facts, fi_context: internal);
    layout!(facts, fi_provider: version, fi_version, context, name, getinfo, fabric, cleanup);
    layout!(facts, fi_tx_attr: caps, mode, op_flags, msg_order, comp_order, inject_size, size, iov_limit, rma_iov_limit, tclass);
    layout!(facts, fi_rx_attr: caps, mode, op_flags, msg_order, comp_order, total_buffered_recv, size, iov_limit);
    layout!(facts, fi_ep_attr: type_ as type, protocol, protocol_version, max_msg_size, msg_prefix_size, max_order_raw_size,
        max_order_war_size, max_order_waw_size, mem_tag_format, tx_ctx_cnt, rx_ctx_cnt, auth_key_size, auth_key);
    layout!(facts, fi_domain_attr: domain, name, threading, control_progress, data_progress, resource_mgmt, av_type, mr_mode,
        mr_key_size, cq_data_size, cq_cnt, ep_cnt, tx_ctx_cnt, rx_ctx_cnt, max_ep_tx_ctx, max_ep_rx_ctx, max_ep_stx_ctx,
        max_ep_srx_ctx, cntr_cnt, mr_iov_limit, caps, mode, auth_key, auth_key_size, max_err_data, mr_cnt, tclass);
    layout!(facts, fi_fabric_attr: fabric, name, prov_name, prov_version, api_version);
    layout!(facts, fi_info: next, caps, mode, addr_format, src_addrlen, dest_addrlen, src_addr, dest_addr, handle, tx_attr,
        rx_attr, ep_attr, domain_attr, fabric_attr, nic);
}

fn objects(facts: &mut Vec<Fact>) {
    layout!(facts, fi_ops_fabric: size, domain, passive_ep, eq_open, wait_open, trywait, domain2);
    layout!(facts, fid_fabric: fid, ops, api_version);
    layout!(facts, fi_av_attr: type_ as type, rx_ctx_bits, count, ep_per_node, name, map_addr, flags);
    layout!(facts, fi_ops_av: size, insert, insertsvc, insertsym, remove, lookup, straddr, av_set);
    layout!(facts, fid_av: fid, ops);
    layout!(facts, fi_cq_attr: size, flags, format, wait_obj, signaling_vector, wait_cond, wait_set);
    layout!(facts, fi_ops_domain: size, av_open, cq_open, endpoint, scalable_ep, cntr_open, poll_open, stx_ctx, srx_ctx,
        query_atomic, query_collective, endpoint2);
    layout!(facts, fi_ops_mr: size, reg, regv, regattr);
    layout!(facts, fid_domain: fid, ops, mr);
    layout!(facts, fi_ops_ep: size, cancel, getopt, setopt, tx_ctx, rx_ctx, rx_size_left, tx_size_left);
    layout!(facts, fi_ops_cm: size, setname, getname, getpeer, connect, listen, accept, reject, shutdown, join);
    layout!(facts, fi_ops_msg: size, all as recv);
    layout!(facts, fi_ops_rma: size, all as read);
    layout!(facts, fi_msg_tagged: msg_iov, desc, iov_count, addr, tag, ignore, context, data);
    layout!(facts, fi_ops_tagged: size, recv, recvv, recvmsg, send, sendv, sendmsg, inject, senddata, injectdata);
    layout!(facts, fid_ep: fid, ops, cm, msg, rma, tagged, atomic, collective);
    layout!(facts, fi_cq_tagged_entry: op_context, flags, len, buf, data, tag);
    layout!(facts, fi_cq_err_entry: op_context, flags, len, buf, data, tag, olen, err, prov_errno, err_data, err_data_size);
    layout!(facts, fi_ops_cq: size, read, readfrom, readerr, sread, sreadfrom, signal, strerror);
    layout!(facts, fid_cq: fid, ops);
}

fn constants(facts: &mut Vec<Fact>) {
    numbers!(
        facts,
        FI_TAGGED,
        FI_RECV,
        FI_SEND,
        FI_REMOTE_CQ_DATA,
        FI_PEEK,
        FI_COMPLETION,
        FI_INJECT,
        FI_INJECT_COMPLETE,
        FI_TRANSMIT_COMPLETE,
        FI_LOCAL_COMM,
        FI_REMOTE_COMM,
        FI_SOURCE,
        FI_DISCARD,
        FI_CLAIM,
        FI_DIRECTED_RECV,
        FI_SELECTIVE_COMPLETION,
        FI_ORDER_SAS,
        FI_ADDR_UNSPEC,
        FI_PROV_SPECIFIC,
        FI_AV_MAP,
        FI_AV_TABLE,
        FI_PROGRESS_MANUAL,
        FI_THREAD_SAFE,
        FI_RM_ENABLED,
        FI_EP_RDM,
        FI_WAIT_NONE,
        FI_WAIT_UNSPEC,
        FI_CQ_FORMAT_CONTEXT,
        FI_CQ_FORMAT_MSG,
        FI_CQ_FORMAT_DATA,
        FI_CQ_FORMAT_TAGGED,
        FI_CLASS_FABRIC,
        FI_CLASS_DOMAIN,
        FI_CLASS_EP,
        FI_CLASS_AV,
        FI_CLASS_CQ,
        FI_ENABLE,
        FI_EOTHER,
        FI_ETOOSMALL,
        FI_EAVAIL,
        FI_EBADFLAGS,
        FI_ETRUNC,
    );
    facts.push(("FI_VERSION(1, 17)".to_owned(), FI_VERSION_1_17.to_string()));
    let entry = size_of::<fi_cq_tagged_entry>().to_string();
    facts.push(("sizeof(struct fi_cq_tagged_entry)".to_owned(), entry));
    for (format, bytes) in [("", 8), ("msg_", 24), ("data_", 40)] {
        facts.push((format!("sizeof(struct fi_cq_{format}entry)"), bytes.to_string()));
    }
}

#[test]
fn structures_and_numbers_are_those_of_the_headers() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut facts = Vec::new();
    attributes(&mut facts);
    objects(&mut facts);
    constants(&mut facts);
    let mut program = String::from(
        "#include <stddef.h>\n#include <stdio.h>\n#include <rdma/fabric.h>\n#include <rdma/fi_cm.h>\n#include <rdma/fi_domain.h>\n\
         #include <rdma/fi_endpoint.h>\n#include <rdma/fi_errno.h>\n#include <rdma/fi_rma.h>\n#include <rdma/fi_tagged.h>\n\
         #include <rdma/providers/fi_prov.h>\nint main(void) {\n",
    );
    for (expression, _) in &facts {
        writeln!(program, "printf(\"%llu\\n\", (unsigned long long)({expression}));").expect("a string");
    }
    program.push_str("return 0; }\n");
    let (source, binary) = (folder.path().join("abi.c"), folder.path().join("abi"));
    std::fs::write(&source, program).expect("written");
    let compiled = Command::new("cc").arg(&source).arg("-o").arg(&binary).output().expect("a compiler");
    let complaints = String::from_utf8_lossy(&compiled.stderr);
    assert!(compiled.status.success(), "are the headers there (./setup.sh test)? {complaints}");
    let said = Command::new(&binary).output().expect("ran").stdout;
    let said = String::from_utf8(said).expect("numbers");
    let said: Vec<&str> = said.lines().collect();
    assert_eq!(said.len(), facts.len());
    for ((expression, ours), real) in facts.iter().zip(said) {
        assert_eq!(*ours, real, "{expression}");
    }
}
