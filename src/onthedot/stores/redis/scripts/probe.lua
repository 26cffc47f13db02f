-- Ask every node to beat now, by a hint: `NodesSlice.probe`.
-- Uses:

hint('beats', now)
