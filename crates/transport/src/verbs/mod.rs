//! RDMA on this machine.

use domain::RdmaFacts;

pub fn rdma_devices() -> RdmaFacts {
    unimplemented!()
}
