//! Messages waiting to be written to one node.

use std::sync::Arc;

use domain::NodeId;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use super::error::SendError;
use super::frame::FRAME_MAX;

/// Control messages are records and answers, a few a second; so many wait only for a node that has stopped reading.
pub(super) const QUEUE_MESSAGES_MAX: usize = 256;
/// Four of the longest. The queue's bytes are held for each node that hangs.
pub(super) const QUEUE_BYTES_MAX: usize = 4 * FRAME_MAX;

#[derive(Debug)]
pub(super) struct Queue {
    sender: mpsc::Sender<Queued>,
    room: Arc<Semaphore>,
}

/// A message with the room it takes, which is free again when this is dropped.
#[derive(Debug)]
pub(super) struct Queued {
    pub(super) message: bytes::Bytes,
    _room: OwnedSemaphorePermit,
}

impl Queue {
    pub(super) fn new() -> (Self, mpsc::Receiver<Queued>) {
        let (sender, queued) = mpsc::channel(QUEUE_MESSAGES_MAX);
        (Self { sender, room: Arc::new(Semaphore::new(QUEUE_BYTES_MAX)) }, queued)
    }

    pub(super) fn push(&self, to: NodeId, message: bytes::Bytes) -> Result<(), SendError> {
        if message.len() > FRAME_MAX {
            return Err(SendError::TooLarge { len: message.len() });
        }
        let full = || SendError::QueueFull {
            to,
            n_messages: QUEUE_MESSAGES_MAX - self.sender.capacity(),
            queued: domain::Bytes::new((QUEUE_BYTES_MAX - self.room.available_permits()) as u64),
        };
        let len = message.len() as u32; // at most FRAME_MAX
        let room = self.room.clone().try_acquire_many_owned(len).map_err(|_| full())?;
        self.sender.try_send(Queued { message, _room: room }).map_err(|error| match error {
            mpsc::error::TrySendError::Full(refused) => {
                drop(refused); // its room is not waiting
                full()
            }
            mpsc::error::TrySendError::Closed(_) => SendError::NotConnected { to },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TO: NodeId = NodeId::from_bytes([1; 32]);

    #[test]
    fn the_queue_is_bounded_by_number() {
        let (queue, mut queued) = Queue::new();
        for _ in 0..QUEUE_MESSAGES_MAX {
            queue.push(TO, vec![0].into()).unwrap();
        }
        let error = queue.push(TO, vec![0].into()).unwrap_err();
        assert!(error.to_string().contains("256 messages (256 B)"), "{error}");
        queued.try_recv().unwrap();
        queue.push(TO, vec![0].into()).unwrap();
    }

    #[test]
    fn the_queue_is_bounded_by_bytes() {
        let (queue, mut queued) = Queue::new();
        assert_eq!(queue.push(TO, vec![0; FRAME_MAX + 1].into()), Err(SendError::TooLarge { len: FRAME_MAX + 1 }));
        for _ in 0..4 {
            queue.push(TO, vec![0; FRAME_MAX].into()).unwrap();
        }
        assert!(matches!(queue.push(TO, vec![0].into()), Err(SendError::QueueFull { .. })));
        drop(queued.try_recv().unwrap());
        queue.push(TO, vec![0].into()).unwrap();
        drop(queued);
        assert_eq!(queue.push(TO, vec![0].into()), Err(SendError::NotConnected { to: TO }));
    }
}
