"""Signatures of the contract functions and events that toolbridge uses.

Written from the deployed contracts: JobMarketplace, NodeRegistry, ModelRegistry, ERC-20 tokens and
the gas oracle of OP-stack chains. `ReadCall` and `ContractCall` use functions by name.
"""

NATIVE = "0x" + "00" * 20
"""The address that stands for the chain's own coin."""

_JOB = """
    uint256 address address address uint256 uint256 uint256 uint256 uint256
    uint256 uint256 uint256 uint8 uint256 uint256 string bytes32 string
"""
"""The fields of `sessionJobs`: id, depositor, host, token, deposit, price, tokens used, maximum
duration, start, last proof, proof interval, proof timeout, status (0 active, 1 completed, 2 timed
out), paid to the host, refunded, conversation CID, hash and CID of the last proof."""

FUNCTIONS: dict[str, tuple[str, tuple[str, ...]]] = {
    name: (f"{name}({given})", tuple(returned.split()))
    for name, given, returned in (
        # JobMarketplace: sessions and deposits
        ("createSessionJobForModel", "address,bytes32,uint256,uint256,uint256,uint256", "uint256"),
        (
            "createSessionJobForModelWithToken",
            "address,bytes32,address,uint256,uint256,uint256,uint256,uint256",
            "uint256",
        ),
        (
            "createSessionFromDepositForModel",
            "bytes32,address,address,uint256,uint256,uint256,uint256,uint256",
            "uint256",
        ),
        (
            "createSessionForModelAsDelegate",
            "address,bytes32,address,address,uint256,uint256,uint256,uint256,uint256",
            "uint256",
        ),
        ("completeSessionJob", "uint256,string", ""),
        ("triggerSessionTimeout", "uint256", ""),
        ("submitProofOfWork", "uint256,uint256,bytes32,string,string", ""),
        ("depositNative", "", ""),
        ("withdrawNative", "uint256", ""),
        ("depositToken", "address,uint256", ""),
        ("withdrawToken", "address,uint256", ""),
        ("userDepositsNative", "address", "uint256"),
        ("userDepositsToken", "address,address", "uint256"),
        ("getDepositBalance", "address,address", "uint256"),
        (
            "sessionJobs",
            "uint256",
            _JOB,
        ),
        ("sessionModel", "uint256", "bytes32"),
        ("nextJobId", "", "uint256"),
        ("paused", "", "bool"),
        ("tokenMinDeposits", "address", "uint256"),
        ("MIN_DEPOSIT", "", "uint256"),
        ("PRICE_PRECISION", "", "uint256"),
        ("disputeWindow", "", "uint256"),
        ("minTokensFee", "", "uint256"),
        # NodeRegistry
        ("getNodesForModel", "bytes32", "address[]"),
        (
            "getNodeFullInfo",
            "address",
            "address uint256 bool string string bytes32[] uint256 uint256",
        ),
        ("getAllActiveNodes", "", "address[]"),
        ("getModelPricing", "address,bytes32,address", "uint256"),
        ("getHostModelPrices", "address,address", "bytes32[] uint256[]"),
        ("nodeSupportsModel", "address,bytes32", "bool"),
        ("isActiveNode", "address", "bool"),
        ("getNodeApiUrl", "address", "string"),
        ("getNodeModels", "address", "bytes32[]"),
        ("nodes", "address", "address uint256 bool string string uint256 uint256"),
        # ModelRegistry
        ("isModelApproved", "bytes32", "bool"),
        ("getModelId", "string,string", "bytes32"),
        ("getAllModels", "", "bytes32[]"),
        # GasPriceOracle: the L1 data fee of a transaction
        ("getL1Fee", "bytes", "uint256"),
        # ERC-20
        ("approve", "address,uint256", "bool"),
        ("allowance", "address,address", "uint256"),
        ("balanceOf", "address", "uint256"),
    )
}
"""The signature and the return types of each function, by its name."""

SESSION_CREATED = "SessionJobCreated(uint256,address,address,uint256)"
"""Topics: job id, depositor, host. Data: the deposit."""
NODE_REGISTERED = "NodeRegistered(address,uint256,string,bytes32[])"
METADATA_UPDATED = "MetadataUpdated(address,string)"
PROOF_SUBMITTED = "ProofSubmitted(uint256,address,uint256,bytes32,string,string)"
