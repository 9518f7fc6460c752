//! A source on a thread of its own that looks when it is asked to: nothing is read while nobody wants it.

use std::io;
use std::sync::mpsc::{self as std_mpsc, SyncSender};
use std::thread;

use tokio::sync::mpsc::Sender;

use super::{Source, SourceError, SourceReport};
use crate::reading::{DeviceSample, Moment};

/// Asks the thread of a source for samples, and ends it when it is dropped.
///
/// As with [`spawn`](super::spawn), the thread is never joined: it may be stuck in the driver for good.
#[derive(Debug)]
pub struct OnDemand {
    requests: SyncSender<()>,
}

impl OnDemand {
    /// Asks for a sample. One that is asked for while the thread is at work is of the time after that.
    pub fn request(&self) {
        // A full queue holds the same wish already.
        let _ = self.requests.try_send(());
    }
}

/// Opens a source on a new thread when it is first asked for, and has it sample at each request.
///
/// Each request is answered with one [`SourceReport::Sample`], or with one [`SourceReport::Failed`] where the source
/// cannot be opened: the next request tries again.
///
/// # Errors
/// When the system gives no thread.
pub fn spawn_on_demand<O, C>(mut open: O, clock: C, reports: Sender<SourceReport>) -> io::Result<OnDemand>
where
    O: FnMut() -> Result<Box<dyn Source>, SourceError> + Send + 'static,
    C: Fn() -> Moment + Send + 'static,
{
    let (requests, requested) = std_mpsc::sync_channel(1);
    thread::Builder::new().name("source".to_owned()).spawn(move || {
        let mut source: Option<Box<dyn Source>> = None;
        for () in requested {
            let opened = match source.as_mut() {
                Some(opened) => Ok(opened),
                None => open().and_then(|opened| {
                    let info = opened.info();
                    let opened = source.insert(opened);
                    reports.blocking_send(SourceReport::Started(info)).map_err(|_| SourceError::Spent)?;
                    Ok(opened)
                }),
            };
            let report = match opened {
                Ok(source) => {
                    let mut sample = source.sample(clock());
                    sample.devices.iter_mut().for_each(DeviceSample::drop_impossible);
                    SourceReport::Sample(sample)
                }
                Err(why) => SourceReport::Failed(why.to_string()),
            };
            if reports.blocking_send(report).is_err() {
                return;
            }
        }
    })?;
    Ok(OnDemand { requests })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use tokio::sync::mpsc;

    use super::*;
    use crate::reading::{Sample, SourceInfo, SourceKind};

    struct CountingSource(Arc<AtomicU64>);

    impl Source for CountingSource {
        fn info(&self) -> SourceInfo {
            SourceInfo { kind: SourceKind::Nvml, detail: String::new() }
        }

        fn sample(&mut self, now: Moment) -> Sample {
            self.0.fetch_add(1, Ordering::Relaxed);
            Sample { at: now, ..Sample::default() }
        }
    }

    #[test]
    fn it_is_opened_and_read_when_it_is_asked_and_tried_again_where_it_fails() {
        let read = Arc::new(AtomicU64::new(0));
        let (sender, mut reports) = mpsc::channel(4);
        let (seen, mut tries) = (read.clone(), 0);
        let open = move || {
            tries += 1;
            if tries == 1 {
                Err(SourceError::NoDemo)
            } else {
                Ok(Box::new(CountingSource(seen.clone())) as Box<dyn Source>)
            }
        };
        let source = spawn_on_demand(open, || Moment(7), sender).unwrap();
        source.request();
        assert_eq!(reports.blocking_recv(), Some(SourceReport::Failed(SourceError::NoDemo.to_string())));
        assert_eq!(read.load(Ordering::Relaxed), 0);
        source.request();
        assert!(matches!(reports.blocking_recv(), Some(SourceReport::Started(_))));
        assert!(matches!(reports.blocking_recv(), Some(SourceReport::Sample(sample)) if sample.at == Moment(7)));
        source.request();
        assert!(matches!(reports.blocking_recv(), Some(SourceReport::Sample(_))));
        assert_eq!(read.load(Ordering::Relaxed), 2);
        drop(source);
        assert_eq!(reports.blocking_recv(), None);
    }
}
