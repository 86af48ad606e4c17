// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.20;

import "./Registry.sol";
import "./Token.sol";

/// Sessions and their money, with the interface, the events and the reasons of the deployed contract.
contract Marketplace {
    struct Session {
        uint256 id;
        address depositor;
        address host;
        address paymentToken;
        uint256 deposit;
        uint256 pricePerToken;
        uint256 tokensUsed;
        uint256 maxDuration;
        uint256 startTime;
        uint256 lastProofTime;
        uint256 proofInterval;
        uint256 proofTimeoutWindow;
        uint8 status;
        uint256 withdrawnByHost;
        uint256 refundedToUser;
        string conversationCID;
        bytes32 lastProofHash;
        string lastProofCID;
    }

    struct Times {
        uint256 duration;
        uint256 interval;
        uint256 timeout;
    }

    uint256 public constant MIN_DEPOSIT = 0.0001 ether;
    uint256 public constant PRICE_PRECISION = 1000;
    uint256 public constant disputeWindow = 30;
    uint256 public constant minTokensFee = 100;

    Registry public immutable registry;
    uint256 public nextJobId = 1;
    bool public paused;
    uint256 public treasury;

    mapping(uint256 => Session) internal sessions;
    mapping(uint256 => bytes32) public sessionModel;
    mapping(address => uint256) public tokenMinDeposits;
    mapping(address => uint256) public userDepositsNative;
    mapping(address => mapping(address => uint256)) public userDepositsToken;

    error EnforcedPause();

    event SessionJobCreated(
        uint256 indexed jobId, address indexed depositor, address indexed host, uint256 deposit
    );
    event SessionJobCreatedForModel(
        uint256 indexed jobId,
        address indexed depositor,
        address indexed host,
        bytes32 modelId,
        uint256 deposit
    );
    event SessionCompleted(
        uint256 indexed jobId, uint256 tokensUsed, uint256 hostEarnings, uint256 userRefund
    );
    event SessionTimedOut(uint256 indexed jobId, uint256 hostEarnings, uint256 userRefund);
    event ProofSubmitted(
        uint256 indexed jobId,
        address indexed host,
        uint256 tokensClaimed,
        bytes32 proofHash,
        string proofCID,
        string deltaCID
    );
    event RefundCreditedToDeposit(
        uint256 indexed jobId, address indexed depositor, uint256 amount, address token
    );

    constructor(Registry place) {
        registry = place;
    }

    function setPaused(bool value) external {
        paused = value;
    }

    function setTokenMinDeposit(address token, uint256 least) external {
        tokenMinDeposits[token] = least;
    }

    function getDepositBalance(address user, address token) external view returns (uint256) {
        return token == address(0) ? userDepositsNative[user] : userDepositsToken[user][token];
    }

    function depositNative() external payable {
        userDepositsNative[msg.sender] += msg.value;
    }

    function withdrawNative(uint256 amount) external {
        require(userDepositsNative[msg.sender] >= amount, "Low balance");
        userDepositsNative[msg.sender] -= amount;
        require(_send(address(0), msg.sender, amount), "Transfer failed");
    }

    function depositToken(address token, uint256 amount) external {
        require(Token(token).transferFrom(msg.sender, address(this), amount), "Transfer failed");
        userDepositsToken[msg.sender][token] += amount;
    }

    function withdrawToken(address token, uint256 amount) external {
        require(userDepositsToken[msg.sender][token] >= amount, "Low balance");
        userDepositsToken[msg.sender][token] -= amount;
        require(_send(token, msg.sender, amount), "Transfer failed");
    }

    function createSessionJobForModel(
        address host,
        bytes32 modelId,
        uint256 pricePerToken,
        uint256 maxDuration,
        uint256 proofInterval,
        uint256 proofTimeoutWindow
    ) external payable returns (uint256) {
        if (paused) revert EnforcedPause();
        require(msg.value >= MIN_DEPOSIT, "Low deposit");
        require(msg.value <= 1000 ether, "Over max");
        Times memory times = Times(maxDuration, proofInterval, proofTimeoutWindow);
        return _create(host, modelId, address(0), msg.value, pricePerToken, times);
    }

    function createSessionJobForModelWithToken(
        address host,
        bytes32 modelId,
        address token,
        uint256 deposit,
        uint256 pricePerToken,
        uint256 maxDuration,
        uint256 proofInterval,
        uint256 proofTimeoutWindow
    ) external returns (uint256) {
        if (paused) revert EnforcedPause();
        require(tokenMinDeposits[token] > 0, "Bad token");
        require(deposit >= tokenMinDeposits[token], "Low deposit");
        Times memory times = Times(maxDuration, proofInterval, proofTimeoutWindow);
        uint256 id = _create(host, modelId, token, deposit, pricePerToken, times);
        require(Token(token).transferFrom(msg.sender, address(this), deposit), "Transfer failed");
        return id;
    }

    function _create(
        address host, bytes32 modelId, address token, uint256 deposit, uint256 price, Times memory times
    ) internal returns (uint256 id) {
        require(times.duration > 0 && times.duration <= 365 days, "Bad dur");
        require(times.interval >= 100, "Low interval");
        require(times.timeout >= 60 && times.timeout <= 3600, "Bad timeout");
        _checkHost(host, modelId, token, price);
        require((deposit * PRICE_PRECISION) / price >= times.interval, "Low deposit");
        id = nextJobId++;
        Session storage job = sessions[id];
        job.id = id;
        job.depositor = msg.sender;
        job.host = host;
        job.paymentToken = token;
        job.deposit = deposit;
        job.pricePerToken = price;
        job.maxDuration = times.duration;
        job.startTime = block.timestamp;
        job.lastProofTime = block.timestamp;
        job.proofInterval = times.interval;
        job.proofTimeoutWindow = times.timeout;
        sessionModel[id] = modelId;
        emit SessionJobCreatedForModel(id, msg.sender, host, modelId, deposit);
        emit SessionJobCreated(id, msg.sender, host, deposit);
    }

    function _checkHost(address host, bytes32 modelId, address token, uint256 price) internal view {
        (address operator,, bool active,,,,) = registry.nodes(host);
        require(operator != address(0), "No host reg");
        require(active, "Host not active");
        require(registry.isModelApproved(modelId), "No model");
        require(registry.nodeSupportsModel(host, modelId), "Bad model");
        require(price >= registry.getModelPricing(host, modelId, token), "Low price");
    }

    function submitProofOfWork(
        uint256 id, uint256 tokens, bytes32 hash, string calldata cid, string calldata delta
    ) external {
        Session storage job = sessions[id];
        require(job.status == 0, "Not active");
        require(msg.sender == job.host, "Not auth");
        job.tokensUsed += tokens;
        require(job.tokensUsed * job.pricePerToken / PRICE_PRECISION <= job.deposit, "Over dep");
        job.lastProofTime = block.timestamp;
        job.lastProofHash = hash;
        job.lastProofCID = cid;
        emit ProofSubmitted(id, msg.sender, tokens, hash, cid, delta);
    }

    function completeSessionJob(uint256 id, string calldata cid) external {
        Session storage job = sessions[id];
        require(job.depositor != address(0), "Bad session");
        require(job.status == 0, "Not active");
        if (msg.sender != job.depositor) {
            require(msg.sender == job.host, "Not auth");
            require(block.timestamp >= job.lastProofTime + disputeWindow, "Wait dispute");
        }
        job.status = 1;
        job.conversationCID = cid;
        uint256 tokens = job.tokensUsed;
        if (tokens == 0 && msg.sender == job.depositor) tokens = minTokensFee;
        _pay(job, tokens);
        emit SessionCompleted(id, job.tokensUsed, job.withdrawnByHost, job.refundedToUser);
    }

    function triggerSessionTimeout(uint256 id) external {
        Session storage job = sessions[id];
        require(job.status == 0, "Not active");
        require(
            block.timestamp > job.lastProofTime + job.proofTimeoutWindow
                || block.timestamp > job.startTime + job.maxDuration,
            "Not timed out"
        );
        job.status = 2;
        _pay(job, job.tokensUsed);
        emit SessionTimedOut(id, job.withdrawnByHost, job.refundedToUser);
    }

    function _pay(Session storage job, uint256 tokens) internal {
        uint256 bill = tokens * job.pricePerToken / PRICE_PRECISION;
        if (bill > job.deposit) bill = job.deposit;
        uint256 cut = bill / 10;
        treasury += cut;
        job.withdrawnByHost = bill - cut;
        job.refundedToUser = job.deposit - bill;
        _send(job.paymentToken, job.host, job.withdrawnByHost);
        if (_send(job.paymentToken, job.depositor, job.refundedToUser)) return;
        if (job.paymentToken == address(0)) {
            userDepositsNative[job.depositor] += job.refundedToUser;
        } else {
            userDepositsToken[job.depositor][job.paymentToken] += job.refundedToUser;
        }
        emit RefundCreditedToDeposit(job.id, job.depositor, job.refundedToUser, job.paymentToken);
    }

    function _send(address token, address to, uint256 amount) internal returns (bool done) {
        if (amount == 0) return true;
        if (token != address(0)) return Token(token).transfer(to, amount);
        (done,) = to.call{value: amount}("");
    }

    /// All eighteen fields are more than Solidity's own getter can return, so they are encoded here.
    function sessionJobs(uint256 id) external view {
        Session memory job = sessions[id];
        bytes memory head = abi.encode(
            job.id, job.depositor, job.host, job.paymentToken, job.deposit, job.pricePerToken
        );
        bytes memory middle = abi.encode(
            job.tokensUsed,
            job.maxDuration,
            job.startTime,
            job.lastProofTime,
            job.proofInterval,
            job.proofTimeoutWindow,
            job.status,
            job.withdrawnByHost,
            job.refundedToUser
        );
        bytes memory first = _tail(job.conversationCID);
        bytes memory tails = abi.encode(18 * 32, job.lastProofHash, 18 * 32 + first.length);
        bytes memory all =
            bytes.concat(head, middle, tails, first, _tail(job.lastProofCID));
        assembly {
            return(add(all, 32), mload(all))
        }
    }

    /// A text as it stands behind the fixed fields: its length, then its bytes in whole words.
    function _tail(string memory text) internal pure returns (bytes memory) {
        bytes memory encoded = abi.encode(text);
        assembly {
            mstore(add(encoded, 32), sub(mload(encoded), 32))
            encoded := add(encoded, 32)
        }
        return encoded;
    }
}
