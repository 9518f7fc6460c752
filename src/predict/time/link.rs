//! Time of a collective between ranks of a group.

use std::ops::Add;

use crate::catalog::{Link, LinkCurve};
use crate::model::CollectiveKind;
use crate::predict::job::Job;
use crate::units::Seconds;

/// Latency of a link where the catalogue has none (calculon, systems/a100_80g.json).
const LATENCY: Seconds = Seconds(20e-6);

/// Share of a ring's rate that trees reach with long messages (NCCL, src/graph/tuning.cc: 0.92 of it at most).
const TREE: f64 = 0.92;

/// Ranks that talk: `ranks` of them, `stride` GPUs apart.
#[derive(Debug, Clone, Copy)]
pub(in crate::predict) struct LinkGroup {
    pub ranks: u64,
    pub stride: u64,
}

/// What collectives take, and what they move.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::predict) struct Volume {
    pub seconds: Seconds,
    /// Bytes of the whole tensors; none where a rank is alone.
    pub bytes: f64,
}

impl Add for Volume {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { seconds: self.seconds + other.seconds, bytes: self.bytes + other.bytes }
    }
}

/// The links under a group.
struct Path<'a> {
    job: &'a Job,
    group: LinkGroup,
    /// Ranks of the group in one domain of the fast link.
    near: f64,
    /// How many such domains.
    domains: f64,
}

impl LinkGroup {
    fn path(self, job: &Job) -> Path<'_> {
        let domain = job.hardware.node_gpus;
        let near = (domain / self.stride.max(1)).clamp(1, self.ranks.max(1)) as f64;
        Path { job, group: self, near, domains: (self.ranks as f64 / near).ceil() }
    }

    /// The slowest link between its ranks, and what collectives reach of it.
    pub fn link(self, job: &Job) -> (&Link, &LinkCurve) {
        if self.path(job).domains > 1.0 {
            (&job.hardware.network, &job.speed.network)
        } else {
            (&job.hardware.interconnect, &job.speed.node)
        }
    }

    /// Time of a collective over `bytes`, the size of the whole tensor.
    pub fn seconds(self, job: &Job, kind: CollectiveKind, bytes: f64) -> Seconds {
        if self.ranks < 2 {
            return Seconds::ZERO;
        }
        let path = self.path(job);
        match kind {
            CollectiveKind::AllReduce => path.ring(bytes, 2.0).min(path.tree(bytes)),
            CollectiveKind::AllGather | CollectiveKind::ReduceScatter => path.ring(bytes, 1.0),
            CollectiveKind::AllToAll => path.all_to_all(bytes, path.far_share()),
            CollectiveKind::HeadsForTokens => path.all_to_all(bytes, path.every_share()),
            // Each rank passes its share on, once for every other rank.
            CollectiveKind::Ring => path.ring(bytes, 1.0),
        }
    }

    /// Collectives that together move `bytes`, a bucket of at most `bucket` bytes each.
    pub fn in_buckets(self, job: &Job, kind: CollectiveKind, (bytes, bucket): (f64, f64)) -> Volume {
        if self.ranks < 2 {
            return Volume::default();
        }
        let buckets = (bytes / bucket).ceil().max(1.0);
        Volume { seconds: self.seconds(job, kind, bytes / buckets) * buckets, bytes }
    }

    /// Time in which one rank sends `bytes` to its neighbour.
    pub fn send(self, job: &Job, bytes: f64) -> Seconds {
        let (link, curve) = self.link(job);
        link.latency.unwrap_or(LATENCY) + Seconds(bytes / (link.each_way.0 * curve.point_to_point))
    }
}

impl Path<'_> {
    /// A ring over all ranks: every rank sends all but its own share, `scale` times. Within a domain it runs at the
    /// fast link's rate; between domains every rank of a domain has a network port of its own, and rings through all
    /// of them share the traffic (NCCL builds one for each port).
    fn ring(&self, bytes: f64, scale: f64) -> Seconds {
        let speed = &self.job.speed;
        let ranks = self.group.ranks as f64;
        let near_hops = (ranks - self.domains).max(0.0);
        let far_hops = if self.domains > 1.0 { self.domains } else { 0.0 };
        self.quickest(near_hops, |near, share, start| {
            let steps = near + speed.network.steps_us(far_hops);
            Seconds((start + scale * steps) * 1e-6 + bytes * scale * (ranks - 1.0) / ranks / self.rate(share))
        })
    }

    /// Bytes a second through all rings, of which those within a domain reach a share of what long messages do.
    fn rate(&self, share: f64) -> f64 {
        let (hardware, speed) = (&self.job.hardware, &self.job.speed);
        let fast = hardware.interconnect.each_way.0 * speed.node.ring * share;
        if self.domains > 1.0 { fast.min(hardware.network.each_way.0 * speed.network.ring * self.near) } else { fast }
    }

    /// NCCL takes the protocol that it reckons quickest (src/graph/tuning.cc, `ncclTopoGetAlgoTime`): each is told by the
    /// microseconds of so many steps within a domain, its share of the long messages' rate, and how long it takes to start.
    fn quickest(&self, near_hops: f64, seconds: impl Fn(f64, f64, f64) -> Seconds) -> Seconds {
        let (node, network) = (&self.job.speed.node, &self.job.speed.network);
        let start = |within: f64| if self.domains > 1.0 { network.start_us } else { within };
        let long = seconds(node.steps_us(near_hops), 1.0, start(node.start_us));
        node.short.map_or(long, |short| long.min(seconds(near_hops * short.hop_us, short.share, start(short.start_us))))
    }

    /// An all-reduce through NCCL's double binary trees over the domains, up and down, and along a chain within each (Jeaugey,
    /// "Massively Scale Your Deep Learning Training with NCCL 2.4", NVIDIA, 2019): fewer steps than a ring's where there are
    /// many ranks, and a little slower a byte.
    fn tree(&self, bytes: f64) -> Seconds {
        if self.domains <= 1.0 {
            return Seconds(f64::INFINITY);
        }
        let up = self.job.speed.network.steps_us(self.domains.log2().ceil());
        self.quickest(self.near - 1.0, |near, share, start| {
            Seconds((start + 2.0 * (near + up)) * 1e-6 + 2.0 * bytes / (self.rate(share) * TREE))
        })
    }

    /// What leaves the domain of an all-to-all's bytes: each other rank's share.
    fn every_share(&self) -> f64 {
        let ranks = self.group.ranks as f64;
        (ranks - self.near) / ranks
    }

    /// The same of tokens: each other rank's share; or, where a token that several experts
    /// of one domain want goes there once, as many copies as it has other domains to go to. A token picks its k experts
    /// evenly among d domains, so that it misses one with probability (1 - 1/d)^k.
    fn far_share(&self) -> f64 {
        let every = self.every_share();
        let picks = self.job.decoder().and_then(|decoder| decoder.moe.as_ref()).map_or(1, |moe| moe.per_token);
        if !self.job.speed.sent_once || self.domains < 2.0 {
            return every;
        }
        let visited = (self.domains - 1.0) * (1.0 - (1.0 - 1.0 / self.domains).powf(picks as f64));
        every.min(visited / picks.max(1) as f64)
    }

    /// Every rank sends each other one its share: those in its domain over the fast link, at the same time the
    /// others over its own port.
    fn all_to_all(&self, bytes: f64, far_share: f64) -> Seconds {
        let (hardware, speed) = (&self.job.hardware, &self.job.speed);
        let ranks = self.group.ranks as f64;
        let near = bytes * (self.near - 1.0) / ranks / (hardware.interconnect.each_way.0 * speed.node.all_to_all);
        let far = far_share * bytes / (hardware.network.each_way.0 * speed.network.all_to_all);
        let start = if self.domains > 1.0 { speed.network.start_us } else { speed.node.start_us };
        Seconds(start * 1e-6 + near.max(far))
    }
}
