"""List and watch: reflectors, informers and their caches."""
