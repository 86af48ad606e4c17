// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.20;

/// A registry of nodes with the interface of the deployed one, as far as a client sees it.
contract Registry {
    struct Node {
        address operator;
        uint256 stakedAmount;
        bool active;
        string metadata;
        string apiUrl;
        uint256 minPricePerTokenNative;
        uint256 minPricePerTokenStable;
    }

    mapping(address => Node) public nodes;
    mapping(address => bytes32[]) internal served;
    mapping(bytes32 => address[]) internal serving;
    mapping(bytes32 => bool) public isModelApproved;
    mapping(address => mapping(bytes32 => mapping(address => uint256))) internal prices;

    event NodeRegistered(address indexed operator, uint256 staked, string metadata, bytes32[] models);
    event MetadataUpdated(address indexed operator, string metadata);
    event ModelTokenPricingUpdated(
        address indexed operator, bytes32 indexed model, address indexed token, uint256 price
    );

    function approveModel(bytes32 model) external {
        isModelApproved[model] = true;
    }

    function getModelId(string calldata repo, string calldata file) external pure returns (bytes32) {
        return keccak256(abi.encodePacked(repo, "/", file));
    }

    function register(
        uint256 stake, string calldata metadata, string calldata apiUrl, bytes32[] calldata models
    ) external {
        nodes[msg.sender] = Node(msg.sender, stake, true, metadata, apiUrl, 0, 0);
        served[msg.sender] = models;
        for (uint256 i = 0; i < models.length; i++) {
            serving[models[i]].push(msg.sender);
        }
        emit NodeRegistered(msg.sender, stake, metadata, models);
    }

    function setActive(bool active) external {
        nodes[msg.sender].active = active;
    }

    function updateMetadata(string calldata metadata) external {
        nodes[msg.sender].metadata = metadata;
        emit MetadataUpdated(msg.sender, metadata);
    }

    function setModelTokenPricing(bytes32 model, address token, uint256 price) external {
        prices[msg.sender][model][token] = price;
        emit ModelTokenPricingUpdated(msg.sender, model, token, price);
    }

    function getNodesForModel(bytes32 model) external view returns (address[] memory) {
        return serving[model];
    }

    function getNodeFullInfo(address operator)
        external
        view
        returns (
            address, uint256, bool, string memory, string memory, bytes32[] memory, uint256, uint256
        )
    {
        Node storage node = nodes[operator];
        return (
            node.operator,
            node.stakedAmount,
            node.active,
            node.metadata,
            node.apiUrl,
            served[operator],
            node.minPricePerTokenNative,
            node.minPricePerTokenStable
        );
    }

    function getModelPricing(address operator, bytes32 model, address token)
        external
        view
        returns (uint256)
    {
        if (nodes[operator].operator == address(0)) return 0;
        uint256 price = prices[operator][model][token];
        require(price > 0, "No model pricing");
        return price;
    }

    function nodeSupportsModel(address operator, bytes32 model) public view returns (bool) {
        bytes32[] storage models = served[operator];
        for (uint256 i = 0; i < models.length; i++) {
            if (models[i] == model) return true;
        }
        return false;
    }

    function isActiveNode(address operator) external view returns (bool) {
        return nodes[operator].active;
    }
}
