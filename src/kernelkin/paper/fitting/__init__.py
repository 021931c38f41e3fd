"""How models are fitted: specification and data -> Problem -> Solution -> functions."""
