// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.20;

/// Many calls in one, as Multicall3 offers them.
contract Multicall {
    struct Call3 {
        address target;
        bool allowFailure;
        bytes callData;
    }

    struct Result {
        bool success;
        bytes returnData;
    }

    function aggregate3(Call3[] calldata calls) external payable returns (Result[] memory results) {
        results = new Result[](calls.length);
        for (uint256 i = 0; i < calls.length; i++) {
            (bool done, bytes memory data) = calls[i].target.call(calls[i].callData);
            require(done || calls[i].allowFailure, "Multicall3: call failed");
            results[i] = Result(done, data);
        }
    }
}
